"""The check of the model that an agent hands on, once it has written all of its files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mappa_env.coach.rubric.artifacts import (
    MODEL,
    UNSTABLE,
    defects,
    facts_of,
    is_bundle,
    other_format,
    section,
    sure_defects,
    unknown_work,
)
from mappa_env.coach.rubric.behind_models import given_poor, is_sure
from mappa_env.coach.rubric.case import Case, Finding
from mappa_env.coach.rubric.checks_work import IDLE, unwritten, why
from mappa_env.coach.rubric.inputs import unsound_inputs
from mappa_env.coach.rubric.model_skill import falls_short, skill_of_model, two_faced
from mappa_env.coach.rubric.poor_tables import allowed_skill
from mappa_env.coach.rubric.rewritten import allowed_before
from mappa_env.coach.rubric.skill_scores import UNUSABLE, scored, unusable, used_inputs, worded, worked_around
from mappa_env.coach.rubric.untried_models import TEST, UNTRIED, without_a_test

UNKNOWN = 0.5
"""The score of a model whose predictions cannot be graded."""


def model(case: Case) -> Finding | None:
    """Check how well the model that this agent wrote predicts.

    None: it has written none that can be read, or nobody can tell what its codes stand for.
    """
    if unwritten(case):
        return None
    facts = facts_of(case)
    if facts is not None and is_bundle(section(facts, "model")):
        return _bundle(case, facts)
    if unknown_work(case) is not None:
        return None
    if facts is None:
        return Finding(1.0, f"{MODEL} is written; its content was not checked")
    found, seen = defects(case), section(facts, "model")
    own = [defect for defect in found if defect.writer == case.me and not defect.unclear]
    others = [defect for defect in found if defect.writer not in ("", case.me)]
    closed = seen.get("plain") is False and not other_format(seen)
    hopeless = closed or not seen.get("has_predict") or "probe_failed" in facts
    if own and hopeless and not any(cause.fills for cause in unsound_inputs(case)):
        score = IDLE if unsound_inputs(case) else UNUSABLE
        return Finding(score, f"{own[0].path} is unusable: {own[0].reason}", case.me)
    if own:
        if seen.get("tried_on"):  # X_test had no part in it
            others = [defect for defect in others if defect.path != TEST]
        if section(facts or {}, "checks").get("target_lost"):  # its model may do without that column
            others += given_poor(case)
        return unusable(case, f"{own[0].path} is unusable: {own[0].reason}", others)
    if untried := next((defect for defect in others if defect.path == MODEL), None):
        return Finding(UNTRIED, f"{MODEL} could not be tried: {why(untried)}", untried.writer)
    if "predictions" not in seen:
        return without_a_test(case, others)
    causes = sure_defects([*unsound_inputs(case), *others])
    if seen.get("constant") and section(seen, "beside").get("constant", True):
        return unusable(
            case, f"{MODEL} predicts the same value for every row", [*causes, *given_poor(case)], clear=True
        )
    if case.evidence.truth is None:
        return Finding(1.0, f"{MODEL} predicts every row of X_test.pkl")
    if two_faced(case, facts):
        return unusable(case, f"{MODEL} is unusable: {UNSTABLE}", causes, clear=True)
    skill = skill_of_model(case, facts)
    if skill is None and any(defect.path == TEST for defect in others):
        return without_a_test(case, others)
    if skill is None and others:
        said = f"{MODEL} can predict; {others[0].path} cannot be used to test it"
        return Finding(UNTRIED, said, "" if others[0].unclear else others[0].writer)
    if skill is None and any(defect.path == MODEL and defect.unclear for defect in found):
        return None
    if skill is None:  # it may need another step, such as decoding labels
        return Finding(UNKNOWN, f"the predictions of {MODEL} cannot be graded in this form")
    said = f"{MODEL} predicts {worded(skill)}"
    poor = given_poor(case, skill)
    if (causes and skill > 0) or ((causes or poor) and used_inputs(case)):
        cause = [*causes, *poor][0]
        return Finding(worked_around(skill), f"{said}; {why(cause)}", cause.writer)
    allowed = None if poor else allowed_skill(case, facts)
    if allowed is not None and (before := allowed_before(case)) is not None:
        allowed = max(allowed, before)  # what its own tables lack, it has lost itself
    score = scored(skill, 1.0 if allowed is None else allowed)
    if allowed is None and used_inputs(case):  # nobody can tell what the tables allow
        return Finding(max(score, UNKNOWN), said)
    short = falls_short(skill, allowed) or (allowed is None and skill <= 0)
    return Finding(score, said, case.me if short else None)


def _bundle(case: Case, facts: Mapping[str, Any]) -> Finding | None:
    """A model beside other things: as good as it is alone. None: it is not, so it may need the others."""
    said = f"the {section(facts, 'model').get('type', 'model')} in {MODEL} predicts"
    if case.evidence.truth is None:
        return Finding(1.0, f"{said} every row of {TEST}") if is_sure(case, facts) else None
    skill = skill_of_model(case, facts) if is_sure(case, facts) else None
    return (
        None if skill is None else Finding(scored(skill, allowed_skill(case, facts) or 1.0), f"{said} well")
    )
