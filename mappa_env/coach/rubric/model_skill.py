"""How well a model predicts, by what the probe recorded of its answers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from mappa_env.coach.rubric.artifacts import section
from mappa_env.coach.rubric.case import Case

SHORT = 0.8
"""An agent that keeps less than this fraction of the possible skill may be to blame for the difference."""
TWO_FACED = 0.5
"""A model whose two answers differ more in skill depends on who asks it: numbers that it draws do less."""
UNDONE = ("undone", "undone_falling")
"""What the probe says that predictions in the scale of y_train are in that of train.csv."""
_RANGES = {"probability": (0.02, 0.98), "nonnegative": (0.0, math.inf)}


def skill_of_model(case: Case, facts: Mapping[str, Any], reference: float | None = None) -> float | None:
    """Skill of the predictions that the probe recorded, of two answers the worse; None: not to be graded."""
    return min(skills_of_model(case, facts, reference), default=None)


def skills_of_model(
    case: Case, facts: Mapping[str, Any], reference: float | None = None, *, alone: bool = False
) -> list[float]:
    """The skill of each answer of a model; none if one cannot be graded.

    ``alone``: without what its writer handed on beside it.

    Predictions are first clipped to the metric's range, as the next agent can do: without clipping, one
    confident wrong row makes the log loss unbounded.
    """
    from mappa_env.grading.metrics import metric_named
    from mappa_env.grading.submission import grade_model

    low, high = _RANGES.get(metric_named(case.evidence.task.metric).takes, (-math.inf, math.inf))
    seen, found = section(facts, "model"), []
    answers = [seen, {**seen, **again}] if (again := section(seen, "again")) else [seen]
    for answer in answers:
        # Numbers in the scale of y_train are as good as those in that of train.csv.
        undone = [{**answer, "predictions": answer[name]} for name in UNDONE if name in answer]
        prepared = [] if alone else _prepared(answer, section(seen, "beside"))
        skills = []
        for each in (answer, *undone, *prepared):
            clipped = {
                name: [_clipped(value, low, high) for value in each[name]]
                for name in ("probabilities", "predictions")
                if isinstance(each.get(name), list) and low > -math.inf
            }
            graded = grade_model(case.evidence.task, {**facts, "model": {**each, **clipped}}, reference)
            skills += [] if graded is None else [graded[1]]
        if not skills:
            return []
        found.append(max(skills))
    return found


def _prepared(answer: Mapping[str, Any], beside: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """An answer with what the model says ``beside`` a file of its writer, in every scale."""
    said = [name for name in ("predictions", *UNDONE) if name in beside]
    return [{**answer, **beside, "predictions": beside[name]} for name in said]


def needs_beside(case: Case, facts: Mapping[str, Any]) -> str | None:
    """The file of its writer without which a model is much worse or says nothing, if there is one."""
    beside = section(section(facts, "model"), "beside")
    skill = skill_of_model(case, facts)
    if "predictions" not in beside or skill is None or skill <= 0:
        return None
    if beside.get("needed"):
        return str(beside["file"])
    alone = min(skills_of_model(case, facts, alone=True), default=0.0)
    return str(beside["file"]) if min(skill, 1.0) - max(alone, 0.0) > 1 - SHORT else None


def two_faced(case: Case, facts: Mapping[str, Any]) -> bool:
    """Whether the two answers of the model differ much in skill."""
    skills = [min(max(skill, 0.0), 1.0) for skill in skills_of_model(case, facts)]
    return bool(skills) and max(skills) - min(skills) > TWO_FACED


def falls_short(skill: float, allowed: float | None) -> bool:
    """Whether a model is to blame for its skill: it has much less than its tables allow.

    If the host cannot tell what they allow, nobody is.
    """
    return allowed is not None and skill < SHORT and min(allowed, 1.0) - skill > 1 - SHORT


def _clipped(value: Any, low: float, high: float) -> Any:
    """A prediction, or a row of them, within the range; other values stay."""
    if isinstance(value, list):
        return [_clipped(each, low, high) for each in value]
    return min(max(value, low), high) if isinstance(value, (int, float)) else value
