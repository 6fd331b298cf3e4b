"""The rubric on tables: models."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import pytest

from mappa_env.coach.culprit import culprit
from mappa_env.data import load_tasks
from mappa_env.types import ToolResult, Verdict
from rubric_play import TABLE, Play, code, ran
from rubric_tables import (
    LOADS,
    SOUND,
    engineer,
    facts,
    graded,
    modeler,
    no_file,
    predictions,
    submit,
    with_model,
)


def model_score(**changes: Any) -> tuple[float, str | None]:
    play = Play("dsbench", TABLE)
    engineer(play)
    verdict = modeler(play, with_model(**changes))
    assert verdict.score is not None
    return verdict.score, verdict.blame


def useless_model() -> tuple[float | None, str | None]:
    """A model without skill, of tables from which the host gets all right."""
    play = Play("dsbench", TABLE)
    engineer(play)
    verdict = modeler(play, {**allowing(1.0), **with_model(predictions=predictions(0.2))})
    return verdict.score, verdict.blame


def test_the_ladder_of_models() -> None:
    assert TABLE.family == "classification"
    perfect = model_score(predictions=predictions(1.0))
    good = model_score(predictions=predictions(0.9))
    useless = useless_model()
    constant = model_score(predictions=predictions(0.5), constant=True)
    no_model = model_score(has_predict=False, type="Series")
    broken = model_score(loads=False, error="EOFError")
    assert perfect == (10.0, None)
    assert 5 < good[0] < 10
    assert useless == (1.5, "modeler_0")
    assert constant == (1.0, "modeler_0")
    assert no_model == broken == (1.0, "modeler_0")


def test_nobody_is_to_blame_where_the_host_cannot_tell_what_the_tables_allow() -> None:
    assert model_score(predictions=predictions(0.2)) == (5.0, None)
    play = Play("dsbench", TABLE)
    engineer(play)
    modeler(play, with_model(predictions=predictions(0.2)))
    play.act("modeler_0", "done")
    assert submit(play, graded(0.0)).blame is None


def allowing(share_right: float, **changes: Any) -> dict[str, Any]:
    """A model that gets 60 % right, of tables from which the host gets ``share_right``."""
    found = {"n_predictions": len(predictions(1.0)), "predictions": predictions(share_right)}
    return {**with_model(predictions=predictions(0.6), **changes), "allowed": found}


@pytest.mark.parametrize(("share", "blame"), [(1.0, "modeler_0"), (0.65, None)])
@pytest.mark.parametrize("claims", [{}, {"fit": 1.0, "n_features": 4}, {"fit": 0.0, "type": "Perfect"}])
def test_a_model_is_held_against_what_its_tables_allow_whatever_it_claims(
    share: float, blame: str | None, claims: dict[str, Any]
) -> None:
    play = Play("dsbench", TABLE)
    engineer(play)
    verdict = modeler(play, allowing(share, **claims))
    assert verdict.blame == blame
    assert verdict.score == modeler_of_poor_tables(share).score
    play.act("modeler_0", "done")
    assert submit(play, graded(0.4)).blame == blame


def modeler_of_poor_tables(share: float) -> Verdict:
    play = Play("dsbench", TABLE)
    engineer(play)
    return modeler(play, allowing(share))


@pytest.mark.parametrize(
    ("mine", "most_allowed", "blame"), [(0.2, 0.2, "engineer_0"), (0.2, 1.0, "modeler_0")]
)
def test_a_model_without_skill_is_only_blamed_if_its_tables_allow_more(
    mine: float, most_allowed: float, blame: str
) -> None:
    """The engineer shuffled X_test.pkl, say: nobody learns anything that test.csv asks for."""
    play = Play("dsbench", TABLE)
    engineer(play)
    verdict = modeler(play, {**allowing(most_allowed), **with_model(predictions=predictions(mine))})
    assert (verdict.score, verdict.blame) == ((6, blame) if blame == "engineer_0" else (1.5, blame))
    play.act("modeler_0", "done")
    submitted = submit(play, graded(0.0))
    assert (submitted.score, submitted.blame) == (6, blame)
    play.act("analyst_0", "done", provisional=graded(0.0))
    assert culprit(play.actions) == blame


def test_who_ignores_worthless_tables_is_not_excused_by_them() -> None:
    play = Play("dsbench", TABLE)
    engineer(play)
    probe = {**allowing(0.2), **with_model(predictions=predictions(0.2))}
    tool = ran("", files=["model.pkl"], opened=("model.pkl",))
    verdict = play.act("modeler_0", code("pickle.dump(Guess(), open('model.pkl', 'wb'))"), tool, probe=probe)
    assert verdict.score is not None
    assert verdict.score < 3


def test_a_model_pays_only_for_the_skill_that_its_tables_allowed() -> None:
    def score(allowed: float) -> float:
        found = modeler_of_poor_tables(allowed).score
        assert found is not None
        return found

    assert score(1.0) < score(0.9) < score(0.8) < score(0.7)


@pytest.mark.parametrize(("share", "blame"), [(1.0, "modeler_0"), (0.55, "engineer_0")])
def test_few_columns_are_poor_only_if_little_can_be_learned_from_them(share: float, blame: str) -> None:
    """A selection of two good columns is none; the lazy model on them is to blame itself."""
    few = {"cols": 1}
    play = Play("dsbench", TABLE)
    engineer(play, facts(X_train=few, X_test=few))
    probe = allowing(share)
    probe = {**probe, "X_train": {**probe["X_train"], **few}, "X_test": {**probe["X_test"], **few}}
    assert modeler(play, probe).blame == blame


def test_equal_skill_scores_equally_whatever_the_metric() -> None:
    tasks = load_tasks("tabular", "train", {"sources": ["diabetes"], "size": 1})
    task = tasks.get(tasks.ids[0])
    assert task.family == "regression"
    values = [float(row.split(",")[1]) for row in task.truth["answers_csv"].decode().split()[1:]]
    play = Play("dsbench", task)
    numbers = {"y_train": {**SOUND["y_train"], "numeric": True}}
    engineer(play, {**facts(), **numbers})
    assert modeler(play, {**with_model(predictions=values), **numbers}).score == 10
    for_skill = {skill: submit(Play("dsbench", task), graded(skill)).score for skill in (0.0, 0.4, 0.8)}
    assert for_skill == {s: submit(Play("dsbench", TABLE), graded(s)).score for s in for_skill}
    assert sorted(for_skill.values()) == list(for_skill.values())


def test_a_sure_forest_is_graded_as_it_would_be_submitted() -> None:
    tasks = load_tasks("tabular", "train", {"sources": ["churn"]})
    task = next(t for t in map(tasks.get, tasks.ids) if t.metric == "log_loss")
    values = [float(row.split(",")[1]) for row in task.truth["answers_csv"].decode().split()[1:]]
    sure = [1 - value if i == 0 else value for i, value in enumerate(values)]
    play = Play("dsbench", task)
    engineer(play)
    verdict = modeler(play, with_model(predictions=sure, probabilities=sure))
    assert (verdict.score, verdict.blame) == (10, None)


def test_a_model_of_a_class_nobody_else_has_is_unusable() -> None:
    assert model_score(loads=False, error="AttributeError: Can't get attribute 'Mine'")[0] == 1


def test_what_nobody_can_look_into_is_not_judged() -> None:
    unknown = {"exists": True, "loads": False, "unknown": True, "error": "it is an HDF5 file"}
    play = Play("dsbench", TABLE)
    assert engineer(play, facts(X_test=unknown)).status == "abstain"
    assert modeler(play, {**facts(), "model": unknown}).status == "abstain"
    assert modeler(play, with_model()).status == "ok"


UNKNOWN = {
    "exists": True,
    "loads": False,
    "unknown": True,
    "error": "it names xgboost.Frame, which is no data",
}
CRASH = ran("", "error", "ValueError: Feature names are only supported")


def test_an_input_that_nobody_can_look_into_is_not_its_readers_fault() -> None:
    def reader(source: str, tool: ToolResult | None, probe: Mapping[str, Any] | None = None) -> Verdict:
        play = Play("dsbench", TABLE)
        engineer(play, facts(X_train=UNKNOWN))
        return play.act("modeler_0", source, tool, probe=probe)

    uses, saved = code(LOADS["modeler_0"]), ran("", files=["model.pkl"])
    seen = {**with_model(predictions=predictions(0.2)), "X_train": UNKNOWN}
    assert reader(uses, CRASH).status == "abstain"
    assert reader(uses, saved, seen).status == "abstain"
    good = reader(uses, saved, {**seen, "model": with_model(predictions=predictions(1.0))["model"]})
    assert (good.score, good.blame) == (10, None)
    crash = dataclasses.replace(CRASH, opened=())
    for idle in (reader("I wait.", None), reader(code("raise ValueError"), crash)):
        assert idle.score is not None
        assert (idle.score <= 3, idle.blame) == (True, "modeler_0")


def test_nobody_is_blamed_for_what_follows_from_an_unknown_input() -> None:
    play = Play("dsbench", TABLE)
    engineer(play, facts(X_train=UNKNOWN))
    play.act("modeler_0", code(LOADS["modeler_0"]), CRASH)
    play.act("modeler_0", "I stop.")
    blocked = play.act("analyst_0", code(LOADS["analyst_0"]), no_file("model.pkl"))
    assert (blocked.score, blocked.blame) == (6, None)
    assert culprit(play.actions) is None


def test_what_yields_something_else_the_next_time_is_unusable() -> None:
    assert model_score(stable=False)[0] == 1


def test_a_model_with_unsound_inputs_is_excused() -> None:
    play = Play("dsbench", TABLE)
    leak = {"checks": {"target_leaked": ["price"], "columns_match": False}}
    engineer(play, facts(**leak))
    verdict = modeler(play, {**with_model(predicts=False, error="ValueError"), "checks": leak["checks"]})
    assert (verdict.score, verdict.blame) == (6, "engineer_0")
