"""Tables that are lists, arrays or sparse matrices: sound for a fit; who takes them for frames is excused."""

from __future__ import annotations

import pytest

from mappa_env.coach.culprit import culprit
from mappa_env.types import ActionRecord
from patched import patched

SEED = 5
"""Of a task that asks for numbers."""
SAVE = """
import pickle
import numpy as np
import scipy.sparse as sp
for name in ("X_train", "X_test"):
    t = pd.read_pickle(f"{name}.pkl").astype(float)
    with open(f"{name}.pkl", "wb") as file:
        pickle.dump(KIND, file)
"""
LABELS = "import numpy as np\npd.to_pickle(np.asarray(pd.read_pickle('y_train.pkl')), 'y_train.pkl')"
KINDS = {
    "list": SAVE.replace("KIND", "t.values.tolist()"),
    "sparse": SAVE.replace("KIND", "sp.csc_matrix(t.values)"),
    "array": SAVE.replace("KIND", "t.to_numpy()"),
    "labels": LABELS,
}
READ = """import pickle
import pandas as pd
from sklearn.ensemble import ExtraTreesRegressor
X = pd.read_pickle("X_train.pkl")
with open("y_train.pkl", "rb") as stream:
    y = pickle.load(stream)
"""
FIT = """
model = ExtraTreesRegressor(60, random_state=0).fit(X, y)
with open("model.pkl", "wb") as file:
    pickle.dump(model, file)
"""
HARMED = [
    ("list", "print('rows', X.shape[0])"),
    ("list", "names = list(X.columns)"),
    ("list", "Z = X[:50]\nprint(Z.dtypes)"),
    ("list", "first = X['a']"),
    ("sparse", "assert not X.isna().any().any()"),
    ("sparse", "print(len(X))"),
    ("array", "X = X.fillna(0)"),
    ("array", "few = X.copy()\nprint(few.head())"),
    ("labels", "print(y.value_counts())"),
]
OWN = {
    "a wrong argument": "ExtraTreesRegressor(trees=3).fit(X, y)",
    "its own list": "names = []\nprint(names.shape)",
    "its own array": "p = ExtraTreesRegressor(9).fit(X, y).predict(X)\np.to_csv('p.csv')",
    "it raises": "raise AttributeError(\"'list' object has no attribute 'shape'\")",
    "it indexes its own list": "found = [1, 2]\nprint(found['a'])",
}


def play(kind: str, use: str) -> list[ActionRecord]:
    return patched({"engineer_0": ("", KINDS[kind])}, SEED, {"modeler_0": f"{READ}{use}\n{FIT}"})[0]


@pytest.mark.parametrize(("kind", "use"), HARMED)
def test_who_takes_a_bare_table_for_a_frame_is_not_to_blame(kind: str, use: str) -> None:
    actions = play(kind, use)
    assert actions[0].verdict.score == 10
    assert (actions[1].verdict.score, actions[1].verdict.blame) == (6, "engineer_0")
    assert culprit(actions) == "engineer_0"


def test_nobody_is_blamed_where_it_is_not_plain_what_failed() -> None:
    actions = play("list", "def show(table):\n    print(table.shape)\nshow(X)")
    assert actions[0].verdict.score == 10
    assert (actions[1].verdict.score, actions[1].verdict.blame) == (6, None)


@pytest.mark.parametrize("kind", KINDS)
def test_a_fit_takes_bare_tables(kind: str) -> None:
    actions = play(kind, "")
    assert [(each.verdict.score or 0) >= 8 for each in actions[:2]] == [True] * 2
    assert [each.verdict.blame for each in actions[:2]] == [None] * 2


@pytest.mark.parametrize("name", OWN)
@pytest.mark.parametrize("kind", ["list", "array"])
def test_what_its_own_code_does_wrong_stays_its_fault(kind: str, name: str) -> None:
    actions = play(kind, OWN[name])
    assert (actions[1].verdict.score, actions[1].verdict.blame) == (1, "modeler_0")
    assert culprit(actions) == "modeler_0"
