"""Who is behind a model that predicts poorly: its writer, or who handed that agent unsound or poor tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mappa_env.coach.rubric.artifacts import MODEL, Defect, is_bundle, section, sure_defects
from mappa_env.coach.rubric.case import Case
from mappa_env.coach.rubric.inputs import unsound_inputs
from mappa_env.coach.rubric.model_skill import falls_short, skill_of_model
from mappa_env.coach.rubric.poor_tables import allowed_skill, poor_tables


def behind(case: Case, skill: float | None, reason: str) -> Defect:
    """The model as a cause: the doing of its writer, or of who handed that agent unsound or poor tables."""
    change = case.evidence.present[MODEL]
    found = [*sure_defects(unsound_inputs(case, change)), *poor_tables(case, skill or 0.0)]
    return found[0] if found else Defect(MODEL, change.agent, reason)


def given_poor(case: Case, skill: float = 0.0) -> list[Defect]:
    """The poor tables that another agent wrote, for this agent's model of ``skill``."""
    return [defect for defect in poor_tables(case, skill) if defect.writer != case.me]


def of_modeler(case: Case) -> Sequence[Defect]:
    """The unsound inputs of the agent that wrote the model."""
    change = case.evidence.present.get(MODEL)
    return unsound_inputs(case, change) if change is not None and change.agent else ()


def is_sure(case: Case, facts: Mapping[str, Any]) -> bool:
    """Whether the answers of a model are its own: one that does well needs nothing that lies beside it."""
    seen = section(facts, "model")
    if not is_bundle(seen):
        return True
    if not seen.get("predicts") or seen.get("constant") or seen.get("stable") is False:
        return False
    skill = skill_of_model(case, facts)
    return case.evidence.truth is None or (
        skill is not None and skill > 0 and not falls_short(skill, allowed_skill(case, facts))
    )
