"""Whether a submission is unusable whatever its agent's inputs are: a wrong form, or the sample."""

from __future__ import annotations

import hashlib

from mappa_env.coach.rubric.case import Case
from mappa_env.grading.submission import grade_submission
from mappa_env.types import Outcome

_FORM = {"unreadable", "columns", "ids"}
"""Why the grader refuses what is no table, or has another header or ids than the task's own files.
Not the number of rows: predictions for an X_test.pkl with other rows have another one."""
_SAMPLE, _TRAIN = "sample_submission.csv", "train.csv"


def flaw_of(case: Case, path: str, graded: Outcome) -> str | None:
    """What is wrong with the submission at ``path``; None: its inputs may explain what it is worth."""
    if graded.status in _FORM:
        return f"{path} is refused: {graded.reason}"
    nothing = graded.status == "ok" and graded.metrics.get("skill", 0.0) <= 0
    if nothing and not _predicted(case) and not _guessed(case) and _is_sample(case, path, graded):
        return f"{path} is a copy of {_SAMPLE}"
    return None


def _predicted(case: Case) -> bool:
    """Whether a program opened all that others handed on: its predictions may happen to be the sample's."""
    handed = set(case.evidence.agent.reads) - set(case.evidence.task.files)
    return handed <= set(case.evidence.present) and any(
        handed.issubset(run.tool.opened or ()) for run in case.programs if run.tool.status == "ok"
    )


def _guessed(case: Case) -> bool:
    """Whether programs opened the rows to learn from and not the sample.

    What train.csv has most of may be what the sample says.
    """
    opened = {path for run in case.programs if run.tool.status == "ok" for path in run.tool.opened or ()}
    return _TRAIN in opened and _SAMPLE not in opened


def _is_sample(case: Case, path: str, graded: Outcome) -> bool:
    """Whether a submission has the sample's bytes, or, written again, every figure of its grade."""
    task = case.evidence.task
    content = task.files.get(_SAMPLE)
    if content is None:
        return False
    try:
        data = content if isinstance(content, bytes) else content.read_bytes()
    except OSError:
        return False
    if case.evidence.present[path].sha256 == hashlib.sha256(data).hexdigest():
        return True
    return dict(grade_submission(task, data).metrics) == dict(graded.metrics)
