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
    assert facts_of(Random(), tmp_path)["model"]["agreement"] == 0
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


@pytest.mark.parametrize(("noise", "stable"), [(0.02, True), (5.0, False)])
def test_a_model_may_draw_numbers_as_long_as_they_change_little(
    noise: float, stable: bool, tmp_path: Path
) -> None:
    model = facts_of(drawing(noise), tmp_path)["model"]
    assert (model["stable"], model["agreement"] == 1) == (stable, False)
    assert len(model["again"]["predictions"]) == len(X)
    assert model["again"]["predictions"] != model["predictions"]
