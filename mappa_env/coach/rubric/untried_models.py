"""Models that no X_test can test: it is missing, or nobody can use it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mappa_env.coach.rubric.artifacts import MODEL, Defect, facts_of, section, sure_defects
from mappa_env.coach.rubric.case import Case, Finding
from mappa_env.coach.rubric.checks_work import BLOCKED, IDLE, why
from mappa_env.coach.rubric.inputs import files_before, unsound_inputs
from mappa_env.coach.rubric.skill_scores import LEAST, UNUSABLE, unusable

TEST, TRAIN = "X_test.pkl", "train.csv"
UNTRIED = 0.8
"""The score of a model that does its work on the rows that it knows, without a sound table to test it on."""


def without_a_test(case: Case, others: Sequence[Defect]) -> Finding:
    """Judge a model by what it says of X_train. ``others``: the defects of other agents' files."""
    found = [*others, *unsound_inputs(case)]
    test = next((each for each in found if each.path == TEST), None)
    writer = next((each.writer for each in (test, *found) if each is not None), None)
    said = f"{MODEL} can predict; {why(test) if test else 'there is no X_test.pkl to try it on'}"
    tried = section(section(facts_of(case) or {}, "model"), "trial")
    if is_blind(case):
        return Finding(IDLE, f"{MODEL} comes from programs that looked at no data", case.me)
    if not _is_junk(tried):
        known = tried.get("follows") is not None
        return Finding(UNTRIED if known else BLOCKED, said, writer)
    said = (
        f"{MODEL} {'predicts the same value for every row' if tried['constant'] else 'has learned nothing'}"
    )
    causes = [each for each in found if each.path != TEST]
    if sure_defects(causes):
        return unusable(case, said, causes, clear=True)
    if causes or not tried.get("learns", 0.0) > 0:  # nobody can tell whether there is anything to learn
        return Finding(BLOCKED, said, writer)
    return Finding(UNUSABLE if tried["constant"] else LEAST, said, case.me)


def is_blind(case: Case) -> bool:
    """Whether no program of this segment opened train.csv, or anything that an agent had written before."""
    made = [path for path, change in files_before(case).items() if change.agent]
    return not any(run.uses(path) for run in case.programs for path in (TRAIN, *made))


def _is_junk(tried: Any) -> bool:
    """Whether a model has learned nothing of the rows that it knows."""
    return bool(tried.get("constant")) or tried.get("follows", 1.0) <= 0
