"""An agent that repairs the file of another in part is no author of what it leaves there."""

from __future__ import annotations

from typing import Any

import pytest

from mappa_env.coach.culprit import culprit
from rubric_play import TABLE, Play, code, ran
from rubric_tables import LOADS, engineer, facts, modeler

FEWER = {"X_test": {"rows": 58}, "checks": {"test_rows_match": False}}
MIXED = {"checks": {"test_rows_follow": 0.1}}
GAPS = {"X_test": {"rows": 60, "nan": 4}}
MODEL = {"exists": True, "loads": True, "has_predict": True}


def both(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    names = first.keys() | second.keys()
    return {name: {**first.get(name, {}), **second.get(name, {})} for name in names}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (FEWER, FEWER),
        (MIXED, {"checks": {"test_rows_follow": 0.3}}),
        (GAPS, {"X_test": {"nan": 1}}),
        (both(GAPS, FEWER), FEWER),
        (both(GAPS, MIXED), MIXED),
        (both(GAPS, {"X_test": {"inf": 2}}), {"X_test": {"inf": 2}}),
        ({"X_test": {"numeric": False, "strings": ["a"]}}, {"X_test": {"nan": 1}}),
    ],
)
def test_the_first_author_of_a_defect_stays_to_blame(before: dict[str, Any], after: dict[str, Any]) -> None:
    play = Play("dsbench", TABLE)
    assert engineer(play, facts(**before)).score == 1
    repair = ran("", files=["X_test.pkl", "model.pkl"])
    text = code(f"{LOADS['modeler_0']}; pd.read_pickle('X_test.pkl')")
    verdict = play.act("modeler_0", text, repair, probe=facts(**{**after, "model": MODEL}), last=True)
    assert verdict.blame == "engineer_0"
    assert verdict.score is not None
    assert verdict.score >= 6
    blocked = ran("", "error", "ValueError: 58 rows", opened=("X_test.pkl", "model.pkl"))
    assert play.act("analyst_0", code(LOADS["analyst_0"]), blocked).blame == "engineer_0"
    assert culprit(play.actions) == "engineer_0"


@pytest.mark.parametrize(
    ("before", "after"),
    [(GAPS, FEWER), (FEWER, {"X_test": {"rows": 60, "inf": 3}}), ({}, FEWER), (both(GAPS, FEWER), MIXED)],
)
def test_another_defect_is_the_doing_of_who_wrote_last(before: dict[str, Any], after: dict[str, Any]) -> None:
    play = Play("dsbench", TABLE)
    engineer(play, facts(**before))
    repair = ran("", files=["X_test.pkl", "model.pkl"])
    play.act("modeler_0", code(LOADS["modeler_0"]), repair, probe=facts(**{**after, "model": MODEL}))
    assert play.actions[-1].verdict.blame == "modeler_0"


def test_who_made_a_file_answers_for_what_it_leaves_there() -> None:
    play = Play("dsbench", TABLE)
    for _ in range(2):
        assert engineer(play, facts(**FEWER)).blame == "engineer_0"


ORDER = {"a": "0", "b": "1"}
OTHER = {"a": "2", "b": "3"}


@pytest.mark.parametrize(
    ("features", "rows", "harmed"),
    [
        (ORDER, OTHER, True),
        (ORDER, {**OTHER, "b": "1"}, False),
        (OTHER, OTHER, False),
        (ORDER, {"other": "2"}, False),
        (ORDER, ORDER, False),
    ],
    ids=["mixed", "a column changed", "both transformed", "other columns", "as before"],
)
def test_who_mixes_an_x_test_that_nobody_can_compare_is_to_blame(
    features: dict[str, str], rows: dict[str, str], harmed: bool
) -> None:
    """The engineer dropped rows of X_train alone, and the modeler repairs y_train."""
    play = Play("dsbench", TABLE)
    part = {"X_train": {"rows": 140, "order": ORDER}, "X_test": {"rows": 60, "order": ORDER}}
    assert engineer(play, facts(**part, checks={"rows_match": False})).score == 1
    part = {"X_train": {"rows": 140, "order": features}, "X_test": {"rows": 60, "order": rows}}
    repair = ran("", files=["y_train.pkl", "X_test.pkl", "model.pkl"])
    probe = facts(**part, y_train={"rows": 140}, model=MODEL)
    verdict = play.act("modeler_0", code(LOADS["modeler_0"]), repair, probe=probe)
    assert (verdict.blame == "modeler_0") is harmed, verdict
    assert verdict.score is not None
    assert (verdict.score <= 1) is harmed


def test_a_model_alone_is_no_repair() -> None:
    play = Play("dsbench", TABLE)
    engineer(play, facts(**FEWER))
    assert modeler(play, facts(**{**FEWER, "model": MODEL})).blame == "engineer_0"
