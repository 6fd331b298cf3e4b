"""Tasks that ask for ranked labels, or for texts: what an honest team hands on is sound, and is graded."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier

from mappa_env.grading.submission import grade_model
from mappa_env.probes import make_probe
from mappa_env.types import Task
from probing import site_of, workspace_of

RNG = np.random.default_rng(0)
NAMES = ["Dengue", "Lyme_disease", "Malaria", "Plague", "Zika"]
X = pd.DataFrame(RNG.normal(size=(200, 5)), columns=list("abcde"))
LABELS = pd.Series(np.array(NAMES)[(X + RNG.gumbel(size=X.shape) / 2).to_numpy().argmax(axis=1)], name="said")
CODES = LABELS.map({name: at for at, name in enumerate(reversed(NAMES))})
CUT = 120


def seen(folder: Path, metric: str, y: pd.Series, model: Any) -> tuple[Task, dict[str, Any]]:
    """The task, and what the probe finds of tables with the labels ``y`` and a model."""
    table = X.assign(said=LABELS).rename_axis("id").reset_index()
    table[:CUT].to_csv(folder / "train.csv", index=False)
    table[CUT:].drop(columns="said").to_csv(folder / "test.csv", index=False)
    X[:CUT].to_pickle(folder / "X_train.pkl")
    X[CUT:].to_pickle(folder / "X_test.pkl")
    y[:CUT].to_pickle(folder / "y_train.pkl")
    pd.to_pickle(model, folder / "model.pkl")
    truth = {
        "answers_csv": table[CUT:][["id", "said"]].to_csv(index=False),
        "id": "id",
        "target": "said",
        "labels": NAMES,
        "constant": 0.4,
        "reference": 0.9,
    }
    with workspace_of(folder) as workspace:
        site = site_of(workspace)
        task = dataclasses.replace(site.task, metric=metric, truth=truth)
        return task, dict(make_probe("tabular").look(site._replace(task=task)))


def forest(y: pd.Series) -> RandomForestClassifier:
    return RandomForestClassifier(40, random_state=0).fit(X[:CUT], y[:CUT])


@pytest.mark.parametrize("y", [LABELS, CODES], ids=["names", "codes"])
def test_ranked_labels_are_fitted_as_classes_and_graded_as_lists(y: pd.Series, tmp_path: Path) -> None:
    task, facts = seen(tmp_path, "map@3", y, forest(y))
    assert "unfit" not in facts["y_train"]
    assert facts["checks"]["labels_follow"] == 1
    assert (facts["checks"]["labels_known"] == 1) is (y is LABELS)
    graded = grade_model(task, facts)
    top = RandomForestClassifier(40, random_state=0).fit(X[:CUT], LABELS[:CUT]).predict(X[CUT:])
    assert graded is not None
    assert graded[0] > np.mean(top == LABELS[CUT:]) + 0.05  # the second and third count, too
    facts["model"] |= {"probabilities": facts["model"]["probabilities"][::-1]}
    worse = grade_model(task, facts)
    assert worse is not None
    assert worse[1] < 0.3


def test_codes_of_ranked_labels_are_those_of_their_rows(tmp_path: Path) -> None:
    _, facts = seen(tmp_path, "map@3", CODES, forest(CODES))
    assert facts["checks"]["codes"] == {str(at): name for at, name in enumerate(reversed(NAMES))}


def test_texts_need_no_fit(tmp_path: Path) -> None:
    y = LABELS.map(lambda name: f"it was {name}, they said")
    _, facts = seen(tmp_path, "jaccard", y, forest(LABELS))
    assert "unfit" not in facts["y_train"]
    assert facts["y_train"]["table"] is True
