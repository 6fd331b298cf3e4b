"""What the writer of a submission was handed: a model of some skill, or what is wrong with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mappa_env.coach.rubric.artifacts import FOLLOWS, MODEL, UNSTABLE, Defect, facts_of, section, sure_defects
from mappa_env.coach.rubric.behind_models import behind, is_sure, of_modeler
from mappa_env.coach.rubric.case import Case
from mappa_env.coach.rubric.inputs import unsound_inputs
from mappa_env.coach.rubric.model_skill import (
    SHORT,
    UNDONE,
    falls_short,
    needs_beside,
    skill_of_model,
    two_faced,
)
from mappa_env.coach.rubric.poor_tables import allowed_skill
from mappa_env.types import Outcome

UNLIKE = 0.5
"""A submission that follows the model less than this is made from something else."""


@dataclass(frozen=True)
class HandedModel:
    """What the host knows of the model behind a submission.

    ``skill``: None if nobody can tell, or if other inputs are unsound. ``causes``: what explains a
    submission without skill. ``sound``: no other input does. ``worthless``: the model has none. ``scaled``:
    it predicts on another scale than the task's. ``follows``: 0-1, how far the submission follows it.
    """

    facts: Mapping[str, Any] | None
    skill: float | None
    causes: tuple[Defect, ...]
    sound: bool
    worthless: bool
    scaled: bool
    follows: float | None

    @property
    def departed_from(self) -> bool:
        """Whether the submission is known not to be what the model predicts."""
        return self.follows is not None and self.follows < FOLLOWS


def handed_model(case: Case, graded: Outcome) -> HandedModel:
    """What the acting agent was handed. ``graded``: its submission."""
    facts, follows = _facts(case), case.evidence.follows
    found = unsound_inputs(case)
    unclear = [cause for cause in found if cause.unclear]
    causes = sure_defects(found)
    if facts is None:
        return HandedModel(None, None, (*causes, *unclear), not found, False, False, follows)
    if (file := needs_beside(case, facts)) is not None:
        causes.append(Defect(MODEL, "", f"without {file}, which lies beside it, it is much worse"))
    skill = None if causes else skill_of_model(case, facts)
    causes += unclear if skill is None else ()
    sound, scaled = not causes, _is_scaled(case, facts)
    useless = _useless(case, facts, skill, graded) if sound else None
    if useless is not None:
        causes = [useless]
    elif sound:
        causes = _perhaps(case, facts, skill, scaled, graded, unclear)
    return HandedModel(facts, skill, tuple(causes), sound, useless is not None, scaled, follows)


def _facts(case: Case) -> Mapping[str, Any] | None:
    """The probe's facts. Of a model that may need what lies beside it, only that it is there."""
    facts = facts_of(case)
    if facts is None or is_sure(case, facts):
        return facts
    return {**facts, "model": {"exists": True, "unknown": True}}


def _useless(case: Case, facts: Mapping[str, Any], skill: float | None, graded: Outcome) -> Defect | None:
    """The model as a cause, if it has no skill."""
    seen = section(facts, "model")
    constant = seen.get("constant") or (seen.get("one_answer") and graded.metrics.get("constant"))
    if not constant and (skill is None or skill > 0):
        return None
    cause = behind(case, skill, "it predicts no better than the best constant")
    if cause.path == MODEL and not constant and not falls_short(skill or 0, allowed_skill(case, facts)):
        return cause._replace(writer="")  # as good as the host's own on these tables
    return cause


def _perhaps(
    case: Case,
    facts: Mapping[str, Any],
    skill: float | None,
    scaled: bool,
    graded: Outcome,
    unclear: list[Defect],
) -> list[Defect]:
    """What may explain a submission without skill, where the model is not known to be useless."""
    causes: list[Defect] = []
    if skill is None or scaled:  # its predictions have the form of its labels, or their scale
        causes += of_modeler(case)
    if not causes and two_faced(case, facts):
        causes = [behind(case, 0.0, UNSTABLE)]
    misread = skill is not None and _is_misread(case.evidence.follows, skill, graded)
    if not causes and skill is not None and (graded.status == "values" or misread):
        # The codes of its predictions may have been all that its agent knew.
        causes = unclear or [cause for cause in of_modeler(case) if cause.unclear or misread]
    return causes


def _is_misread(follows: float | None, given: float, graded: Outcome) -> bool:
    """Whether a submission has the model's answers and not its skill: they stand for other labels."""
    skill = float(graded.metrics.get("skill", 0.0))
    return follows is not None and follows >= FOLLOWS and skill < SHORT * min(given, 1.0)


def _is_scaled(case: Case, facts: Mapping[str, Any]) -> bool:
    """Whether the model predicts on the scale of y_train, and clearly worse than on that of train.csv."""
    seen = section(facts, "model")
    if "undone" not in seen:
        return False
    plain = {name: value for name, value in seen.items() if name not in (*UNDONE, "again")}
    skill, undone = skill_of_model(case, {**facts, "model": plain}) or 0.0, skill_of_model(case, facts) or 0.0
    return skill <= 0 or skill < SHORT * min(undone, 1.0)


def is_renamed(case: Case, facts: Mapping[str, Any]) -> bool:
    """Whether a submission has the model's answers under other names, by a file that tells about its codes.

    What that file says, nobody can tell.
    """
    checks, model = section(facts, "checks"), section(facts, "model")
    coded = min(model.get("answers_named", 1.0), checks.get("labels_known", 1.0)) < 1
    codings = [*checks.get("codings", ()), *checks.get("codings_unclear", ())]
    used = any(run.uses(path) for run in case.programs for path in codings if path != MODEL)
    return case.evidence.follows is not None and coded and used


def is_made_up(case: Case) -> bool:
    """Whether a submission has nothing to do with the model, and no program could have trained another."""
    follows, training = case.evidence.follows, {"train.csv", "X_train.pkl", "y_train.pkl"}
    opened = [run.tool.opened for run in case.programs]
    seen = not any(files is None or training.intersection(files) for files in opened)
    return follows is not None and follows < UNLIKE and seen
