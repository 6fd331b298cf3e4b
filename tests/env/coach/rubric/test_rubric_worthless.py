"""The rubric on tables of the right form from which no model learns what test.csv asks for."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from mappa_env.coach.culprit import culprit
from mappa_env.data import load_tasks
from mappa_env.types import Task
from probing import played
from rubric_play import TABLE, Play
from rubric_tables import engineer, facts, graded, modeler, predictions, submit, with_model

REWRITE = """import numpy as np, pandas as pd
rng = np.random.default_rng(0)
X, y, Z = (pd.read_pickle(f"{name}.pkl") for name in ("X_train", "y_train", "X_test"))
CHANGE
X.to_pickle("X_train.pkl"); y.to_pickle("y_train.pkl"); Z.to_pickle("X_test.pkl")"""
NOISE = """X, Z = (pd.DataFrame(rng.normal(size=t.shape), columns=t.columns) for t in (X, Z))"""
SHUFFLED = "Z = Z.iloc[rng.permutation(len(Z))]"
LOGARITHM = "y = np.log1p(y)"
MIXED = "X = X.iloc[rng.permutation(len(X))]"
LONG = "X, y = pd.concat([X] * 40), pd.concat([y] * 40)"
WIDE = """pad = [pd.DataFrame(np.zeros((len(t), 3000)), index=t.index).add_prefix("z") for t in (X, Z)]
X, Z = pd.concat([X, pad[0]], axis=1), pd.concat([Z, pad[1]], axis=1)"""
TOLD = "X, y = X.iloc[3:], np.log1p(y - y.min())[3:]; open('scale.txt', 'w').write('log1p')"
"""Labels in another scale, which a file explains, without some rows."""
SEED = 5
"""Of a task of regression."""


def allowing(share_right: float, **changes: Any) -> dict[str, Any]:
    """Tables from which the host's forest gets ``share_right``, before there is a model."""
    found = predictions(share_right)
    return {**facts(X_test={"rows": len(found)}), "allowed": seen(found, **changes)}


def seen(found: list[Any], **changes: Any) -> dict[str, Any]:
    return {"n_predictions": len(found), "predictions": found, **changes}


def test_tables_from_which_nothing_can_be_learned_cap_their_writer() -> None:
    for share, score, blame in ((1.0, 10, None), (0.8, 10, None), (0.2, 1.5, "engineer_0")):
        verdict = engineer(Play("dsbench", TABLE), allowing(share))
        assert (verdict.score, verdict.blame) == (score, blame)


def test_worthless_tables_are_the_fault_of_one_agent() -> None:
    play = Play("dsbench", TABLE)
    engineer(play, allowing(0.2))
    probe = {**with_model(predictions=predictions(0.2)), "allowed": seen(predictions(0.2))}
    assert modeler(play, probe).score == 6
    play.act("modeler_0", "done")
    submit(play, graded(0.0))
    assert culprit(play.actions) == "engineer_0"


def test_a_model_with_skill_clears_the_tables() -> None:
    play = Play("dsbench", TABLE)
    engineer(play, allowing(1.0))
    probe = {**with_model(predictions=predictions(1.0)), "allowed": seen(predictions(0.2))}
    assert modeler(play, probe).blame is None


@pytest.mark.parametrize("cols", [2, 3])
def test_a_selection_of_any_width_is_poor_if_nothing_can_be_learned_from_it(cols: int) -> None:
    """Iris has four columns."""
    probe = allowing(0.2)
    few = {"cols": cols}
    probe = {**probe, "X_train": {**probe["X_train"], **few}, "X_test": {**probe["X_test"], **few}}
    assert engineer(Play("dsbench", TABLE), probe).score == 1.5
    play = Play("dsbench", TABLE)
    engineer(play, probe)
    model = {**probe, "model": with_model(predictions=predictions(0.2))["model"]}
    assert modeler(play, model).blame == "engineer_0"


def reference_at(part: float) -> Task:
    """The task with a reference that goes this part of the way from the constant to a perfect score."""
    constant = float(TABLE.truth["constant"])
    return dataclasses.replace(TABLE, truth={**TABLE.truth, "reference": constant + part * (1 - constant)})


def test_what_the_host_cannot_tell_counts_against_nobody() -> None:
    poor = allowing(0.2)
    missing = {name: value for name, value in poor.items() if name != "allowed"}
    blind = Play("dsbench", TABLE, truth=False)
    for play, probe in (
        (Play("dsbench", TABLE), missing),
        (Play("dsbench", TABLE), allowing(0.2, partial=True)),
        (Play("dsbench", reference_at(0.1)), poor),
        (Play("dsbench", reference_at(-0.5)), poor),
        (blind, poor),
    ):
        verdict = engineer(play, probe)
        assert (verdict.score, verdict.blame) == (10, None)
    assert engineer(Play("dsbench", reference_at(0.5)), poor).score == 1.5


@pytest.mark.parametrize(("share", "learns", "score"), [(0.0, -0.1, 1.5), (0.0, 0.2, 10), (0.6, -0.1, 10)])
def test_a_sample_of_many_rows_counts_if_it_shows_nothing_at_all(
    share: float, learns: float, score: float
) -> None:
    right = predictions(1.0)
    found = right[: int(share * len(right))]
    found += [min(right)] * (len(right) - len(found))
    part = seen(found, sampled=True)
    probe = {**allowing(1.0), "allowed": part, "allowed_smooth": {**part, "learns": learns}}
    assert engineer(Play("dsbench", TABLE), probe).score == score


def two_classes(metric: str) -> Task:
    tasks = load_tasks("tabular", "train", {"sources": ["churn"]})
    return next(task for task in map(tasks.get, tasks.ids) if task.metric == metric)


@pytest.mark.parametrize("metric", ["f1", "log_loss"])
def test_a_forest_that_only_sets_a_wrong_threshold_clears_the_tables(metric: str) -> None:
    """It never predicts the rare class, or is too sure of itself, and yet ranks the rows right."""
    task = two_classes(metric)
    rows = [line.split(",")[1] for line in task.truth["answers_csv"].decode().split()[1:]]
    classes = sorted(set(rows))
    right = [0.04 if row == classes[1] else 0.02 for row in rows]
    chance = [0.04 if at % 2 else 0.02 for at in range(len(rows))]
    for shares, score in ((right, 10), (chance, 1.5)):
        found = seen([classes[0]] * len(rows), probabilities=shares)
        probe = {**facts(X_test={"rows": len(rows)}), "allowed": found}
        assert engineer(Play("dsbench", task), probe).score == score


def test_what_goes_wrong_in_another_order_of_rows_shows_without_the_truth() -> None:
    for follow, score in ((1.0, 10), (0.1, 1)):
        probe = facts(checks={"test_rows_follow": follow})
        verdict = engineer(Play("dsbench", TABLE, truth=False), probe)
        assert verdict.score == score


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [
        SHUFFLED,
        NOISE,
        LOGARITHM,
        MIXED,
        f"{MIXED}\n{LONG}",
        f"{MIXED}\n{WIDE}",
        f"{MIXED}\n{WIDE.replace('3000', '8000')}",
        f"{NOISE}\n{TOLD}",
        f"{MIXED}\n{TOLD}",
        "X = (X - X.mean()) / X.std()",
        "Z = Z * 100",
        "y = y * 1e101",
        "y.iloc[0] = 9e99",
    ],
)
def test_engineers_who_hand_on_wrong_values_earn_least(change: str) -> None:
    engineer_, modeler_ = played(REWRITE.replace("CHANGE", change), "pass", SEED)
    assert engineer_.verdict.blame == modeler_.verdict.blame == "engineer_0"
    assert engineer_.verdict.score is not None
    assert modeler_.verdict.score is not None
    assert engineer_.verdict.score <= 1.5
    assert modeler_.verdict.score >= 6


HONEST = {
    "as it is": "",
    "scaled": "X, Z = X / X.std(), Z / X.std()",
    "scaled each by itself": "X, Z = ((t - t.mean()) / t.std() for t in (X, Z))",
    "negated": "X, Z = -X, -Z",
    "logarithms": "X, Z = (np.sign(t) * np.log1p(t.abs()) for t in (X.astype(float), Z.astype(float)))",
    "fewer training rows": "X, y = X.iloc[20:], y.iloc[20:]",
    "training rows in another order": "X = X.sample(frac=1, random_state=0); y = y.loc[X.index]",
    "arrays": "X, Z = (pd.DataFrame(t.to_numpy()) for t in (X, Z))",
    "labels of objects": "y = y.astype(object)",
    "labels as text": "y = y.astype(str)",
    "labels of categories": "y = y.astype('category')",
    "rows repeated": LONG,
    "padded": WIDE,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", HONEST)
@pytest.mark.parametrize("seed", [4, SEED])
def test_honest_engineers_keep_their_score(name: str, seed: int) -> None:
    assert played(REWRITE.replace("CHANGE", HONEST[name]), "", seed)[0].verdict.score == 10
