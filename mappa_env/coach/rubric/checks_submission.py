"""The check of the submission: its skill as graded by the host, held against what its agent was handed."""

from __future__ import annotations

from mappa_env.coach.rubric.artifacts import LABELS, MODEL
from mappa_env.coach.rubric.behind_models import behind
from mappa_env.coach.rubric.case import Case, Finding
from mappa_env.coach.rubric.checks_work import BLOCKED, IDLE, unwritten, why
from mappa_env.coach.rubric.handed_model import HandedModel, handed_model, is_made_up, is_renamed
from mappa_env.coach.rubric.model_skill import SHORT, falls_short, skills_of_model
from mappa_env.coach.rubric.poor_tables import allowed_skill, worthless_tables
from mappa_env.coach.rubric.skill_scores import scored, unusable, used_inputs, worded, worked_around
from mappa_env.coach.rubric.submission_form import flaw_of
from mappa_env.types import Outcome

SUBMISSION = "submission.csv"
_SCALE = f"perhaps it could not know the scale of {MODEL}'s predictions"
_CODES = "perhaps a file says wrongly what the codes stand for"


def submission(case: Case) -> Finding | None:
    """Check the skill of the submission, as graded by the host. None: this agent wrote none."""
    required, graded = case.evidence.agent.requires, case.evidence.provisional_outcome
    if not required or unwritten(case):
        return None
    path = SUBMISSION if SUBMISSION in required else required[0]
    if case.evidence.truth is None or graded is None:
        return Finding(1.0, f"{path} is written; its content was not checked")
    handed = handed_model(case, graded)
    if (found := _without_grade(case, path, graded, handed)) is not None:
        return found
    skill = float(graded.metrics.get("skill", 0.0))
    said = f"{path} is valid and predicts {worded(skill)}"
    if (found := _behind_causes(case, skill, said, handed)) is not None:
        return found
    if handed.skill is None or handed.facts is None:
        if handed.follows is not None and not handed.departed_from:
            return Finding(scored(skill, skill), f"{said}, and is what {MODEL} predicts")
        return Finding(scored(skill, 1.0), said, case.me if skill <= 0 else None)
    return _beside_model(case, skill, said, handed)


def _without_grade(case: Case, path: str, graded: Outcome, handed: HandedModel) -> Finding | None:
    """Of a submission that cannot be graded, or holds one value. None: it has a skill."""
    full = any(cause.fills for cause in handed.causes)
    if handed.causes and not full and (flaw := flaw_of(case, path, graded)) is not None:
        return Finding(IDLE, flaw, case.me)
    if handed.scaled and not handed.causes and graded.status == "range" and not handed.departed_from:
        return Finding(BLOCKED, f"{path} is refused: {graded.reason}; {_SCALE}")
    if graded.status != "ok":
        return unusable(case, f"{path} is refused: {graded.reason}", handed.causes)
    if graded.metrics.get("constant"):
        said, graded_model = f"{path} holds the same value in every row", handed.skill is not None
        return unusable(case, said, handed.causes, clear=graded_model)
    return None


def _behind_causes(case: Case, skill: float, said: str, handed: HandedModel) -> Finding | None:
    """Of a submission whose agent was handed what is unsound. None: it was not, or it ignored all of it."""
    if not handed.causes:
        return None
    of_model = {cause.path for cause in handed.causes} <= {MODEL, LABELS}
    alone = handed.sound and (handed.worthless or handed.scaled) and of_model
    if alone and skill <= 0 and is_made_up(case):
        return Finding(IDLE, f"{said}, and comes neither from {MODEL} nor from the training data", case.me)
    if skill > 0 or used_inputs(case):
        cause = handed.causes[0]
        return Finding(worked_around(skill), f"{said}; {why(cause)}", cause.writer)
    return None


def _beside_model(case: Case, skill: float, said: str, handed: HandedModel) -> Finding:
    """Of a submission beside a model whose skill the host knows."""
    facts, given = handed.facts or {}, handed.skill or 0.0
    answers = skills_of_model(case, facts)
    less = skill < SHORT * min(given, 1.0) - (max(answers) - min(answers))
    if less and not handed.departed_from and (handed.scaled or is_renamed(case, facts)):
        doubt = _SCALE if handed.scaled else _CODES
        return Finding(max(BLOCKED, scored(skill, given)), f"{said}; {doubt}")
    if less:
        return Finding(scored(skill, given), f"{said}, worse than {MODEL} allows", case.me)
    short = falls_short(given, allowed_skill(case, facts)) or worthless_tables(case, facts, given) is not None
    if short and skill < SHORT:
        cause = behind(case, given, "it predicts worse than the tables allow")
        return Finding(scored(skill, given), f"{said}; {why(cause)}", cause.writer)
    return Finding(scored(skill, given), said)
