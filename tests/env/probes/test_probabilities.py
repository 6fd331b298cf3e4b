"""Models with several columns of probabilities are graded by them, whatever form the model gives them."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.multioutput import ClassifierChain, MultiOutputClassifier
from sklearn.naive_bayes import GaussianNB

from mappa_env.grading.submission import grade_model
from mappa_env.probes.facts import STABLE
from mappa_env.probes.predictions import Array
from mappa_env.types import Task
from probing import look

RNG = np.random.default_rng(1)
X = pd.DataFrame(RNG.uniform(size=(90, 3)), columns=list("abc"))
CLASS = np.array(["win", "draw", "loss"])[X.to_numpy().argmax(axis=1)]
TARGETS = ["win", "draw", "loss"]
ONE_HOT = pd.DataFrame({name: (name == CLASS).astype(int) for name in TARGETS})
MODELS: dict[str, tuple[Any, Any]] = {
    "classes": (RandomForestClassifier(20, random_state=0), CLASS),
    "numbered classes": (GaussianNB(), ONE_HOT.to_numpy().argmax(axis=1)),
    "several outputs": (RandomForestClassifier(20, random_state=0), ONE_HOT),
    "one model per output": (MultiOutputClassifier(GaussianNB()), ONE_HOT),
    "chain": (ClassifierChain(RandomForestClassifier(20, random_state=0), random_state=0), ONE_HOT),
    "regression": (RandomForestRegressor(20, random_state=0), ONE_HOT),
}


def task() -> Task:
    ids = pd.Series(range(90), name="id")
    answers = pd.concat([ids, ONE_HOT], axis=1).to_csv(index=False)
    test = pd.concat([ids, X], axis=1).to_csv(index=False).encode()
    truth = {"answers_csv": answers, "id": "id", "target": TARGETS, "constant": 0.5, "reference": 0.9}
    return Task("t", "", "roc_auc", files={"test.csv": test}, truth=truth)


def facts_of(model: Any, folder: Path) -> dict[str, Any]:
    X.to_pickle(folder / "X_test.pkl")
    (folder / "model.pkl").write_bytes(pickle.dumps(model))
    return look(folder)


@pytest.mark.parametrize("name", MODELS)
def test_every_form_of_probabilities_is_graded(name: str, tmp_path: Path) -> None:
    model, y = MODELS[name]
    graded = grade_model(task(), facts_of(model.fit(X, y), tmp_path))
    assert graded is not None
    assert graded[0] > 0.9


def test_a_model_that_predicts_something_else_each_time_is_not_stable(tmp_path: Path) -> None:
    class Random:
        def __reduce__(self) -> tuple[Any, ...]:
            number = "int.from_bytes(__import__('os').urandom(4), 'big')"
            made = "__import__('sklearn.dummy').dummy.DummyRegressor(strategy='constant', constant="
            return eval, (f"{made}{number}).fit([[0]], [0])",)

    assert facts_of(Random(), tmp_path)["model"]["stable"] is False
    assert facts_of(Random(), tmp_path)["model"]["agreement"] < -0.5
    honest = DummyRegressor(strategy="constant", constant=7).fit(X, ONE_HOT.win)
    assert facts_of(honest, tmp_path)["model"]["stable"] is True


def drawing(noise: float) -> Any:
    """A model that adds new noise to each prediction."""

    class Drawing:
        def __reduce__(self) -> tuple[Any, ...]:
            text = (
                "type('Drawing', (), {'predict': lambda self, X: "
                f"X['a'] + {noise} * __import__('numpy').random.default_rng().normal(size=len(X))}})()"
            )
            return eval, (text,)

    return Drawing()


@pytest.mark.parametrize(("noise", "least"), [(0.02, 0.8), (0.15, 0.3), (5.0, -0.3)])
def test_a_model_may_draw_numbers_and_is_then_as_weak_as_they_make_it(
    noise: float, least: float, tmp_path: Path
) -> None:
    model = facts_of(drawing(noise), tmp_path)["model"]
    assert model["stable"] is True
    assert least <= model["agreement"] < 1
    assert len(model["again"]["predictions"]) == len(X)
    assert model["again"]["predictions"] != model["predictions"]


@pytest.mark.parametrize("share", [0.0, 0.1, 0.3, 0.4, 0.5])
@pytest.mark.parametrize("labels", [("a", "b"), ("no", "yes", "perhaps", "never"), ("0", "1")])
def test_noise_in_labels_is_no_contradiction(share: float, labels: tuple[str, ...]) -> None:
    rng = np.random.default_rng(0)
    true = rng.choice(labels, size=(60, 1), p=[0.7, *[0.3 / (len(labels) - 1)] * (len(labels) - 1)])
    for _ in range(200):
        one, other = (
            Array(60, np.where(rng.random(true.shape) < share, rng.choice(labels, true.shape), true))
            for _ in range(2)
        )
        assert STABLE <= one.agreement(other) <= 1
    assert one.agreement(one) == 1


def test_answers_that_contradict_are_found() -> None:
    rng = np.random.default_rng(0)
    bits, numbers = rng.integers(0, 2, (60, 1)), rng.normal(size=(60, 1))
    for one, other in (
        (bits, 1 - bits),
        (bits, np.ones_like(bits)),
        (numbers, -numbers),
        (numbers, numbers * 1000 + 5000),
        (numbers, np.full_like(numbers, 0.1)),
        (numbers, np.full_like(numbers, np.nan)),
    ):
        assert Array(60, one).agreement(Array(60, other)) < STABLE
        assert Array(60, other).agreement(Array(60, one)) < STABLE
