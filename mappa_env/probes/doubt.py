"""When a model is asked again: its code may have answered the probe otherwise than the next program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mappa_env.errors import DataError
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

    Never of a model that was found out when it was written: to ask again might show only its better face.
    ``outcome``: of the files as they are now, if they were graded.
    """
    tool, change = draft.tool, present.get(MODEL)
    if tool is None or change is None or change.agent in ("", draft.agent):
        return False
    if tool.opened is not None and MODEL not in tool.opened:
        return False
    facts = next((record.probe for record in reversed(history) if record.probe is not None), None)
    if facts is None or not _seemed_sound(facts):
        return False
    if tool.status != "ok":
        return True
    if outcome is None or not tool.written:
        return False
    try:
        shown = grade_model(task, facts)
    except DataError:  # the task's files have changed, which whoever grades by them says
        return False
    if shown is None:
        return False
    return float(outcome.metrics.get("skill", 0.0)) < MUCH * min(shown[1], 1.0)


def _seemed_sound(facts: Mapping[str, Any]) -> bool:
    model = facts.get("model")
    return isinstance(model, Mapping) and bool(model.get("predicts")) and model.get("stable") is not False
