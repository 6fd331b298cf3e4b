"""When a model is asked again: its code may have answered the probe otherwise than the next program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mappa_env.grading.submission import grade_model
from mappa_env.probes.opening import MODEL
from mappa_env.types import ActionRecord, FileChange, Outcome, Task

MUCH = 0.8
"""A submission with less than this fraction of the skill that a model showed casts doubt on that model."""


def is_doubtful(
    draft: ActionRecord,
    history: Sequence[ActionRecord],
    present: Mapping[str, FileChange],
    task: Task,
    outcome: Outcome | None,
) -> bool:
    """Whether a program that used another agent's model failed, or submitted much less than the model showed.

    ``outcome``: of the files as they are now, if they were graded.
    """
    tool, change = draft.tool, present.get(MODEL)
    if tool is None or change is None or change.agent in ("", draft.agent):
        return False
    if tool.opened is not None and MODEL not in tool.opened:
        return False
    facts = next((record.probe for record in reversed(history) if record.probe is not None), None)
    if facts is None or tool.status != "ok":
        return facts is not None
    shown = grade_model(task, facts) if outcome is not None and tool.written and "model" in facts else None
    if shown is None or outcome is None:
        return False
    return float(outcome.metrics.get("skill", 0.0)) < MUCH * min(shown[1], 1.0)
