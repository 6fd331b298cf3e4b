"""A model that answered the probe well when it was written, and otherwise when an agent had used it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mappa_env.coach.rubric.artifacts import (
    MODEL,
    Defect,
    defects,
    facts_after,
    facts_of,
    is_unknown,
    section,
)
from mappa_env.coach.rubric.case import Case
from mappa_env.coach.rubric.model_skill import TWO_FACED, skill_of_model

CHANGED = "it no longer answers as it did when it was written"


def changed_model(case: Case) -> Defect | None:
    """The model of another agent that stopped working or lost its skill while its file stayed as it was.

    None also where this agent changed any file that was there before, since the model may need that one.
    """
    change = case.evidence.present.get(MODEL)
    before = facts_after(case.before)
    now = facts_of(case)
    if change is None or change.agent in ("", case.me) or before is None or now is None or now is before:
        return None
    if change.step >= len(case.before) or not _works(before) or _touched(case):
        return None
    defect = next((each for each in defects(case) if each.path == MODEL and not each.unclear), None)
    if defect is not None:
        return Defect(MODEL, defect.writer, f"{CHANGED}: {defect.reason}")
    constant = section(now, "model").get("constant") and not section(before, "model").get("constant")
    return Defect(MODEL, change.agent, CHANGED) if constant or _lost(case, before, now) else None


def _works(facts: Mapping[str, Any]) -> bool:
    model = section(facts, "model")
    return bool(model.get("predicts")) and model.get("stable") is not False and not is_unknown(model)


def _touched(case: Case) -> bool:
    own = case.evidence.agent.requires
    return any(
        change.path not in own and change.op != "created"
        for run in case.programs
        for change in run.tool.files
    )


def _lost(case: Case, before: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Whether it has much less skill than before, as far as the truth tells."""
    if case.evidence.truth is None:
        return False
    was, has = skill_of_model(case, before), skill_of_model(case, now)
    return was is not None and has is not None and min(was, 1.0) - max(has, 0.0) > TWO_FACED
