"""Rules that meet: shuffled rows and scales, codes that are labels, models that say nothing, one class."""

from __future__ import annotations

import pytest

from mappa_env.coach.culprit import culprit
from mappa_env.types import ActionRecord
from patched import patched

NUMBERS, LABELS = 3, 1
MODEL = """
import pickle
import pandas as pd
from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor
X, y = pd.read_pickle("X_train.pkl"), pd.read_pickle("y_train.pkl")
"""
SAVE = "\nwith open('model.pkl', 'wb') as file:\n    pickle.dump(model, file)"
SUBMIT = """
import pickle
import pandas as pd
test, form = pd.read_csv("test.csv"), pd.read_csv("sample_submission.csv")
X, model = pd.read_pickle("X_test.pkl"), pickle.load(open("model.pkl", "rb"))
p = model.predict(X)
"""
WRITE = """
key, target = form.columns
pd.DataFrame({key: test[key], target: p}).to_csv("submission.csv", index=False)
"""
SHUFFLED = """
import numpy as np, pandas as pd
order = np.random.default_rng(0).permutation(len(a))
a.iloc[order].reset_index(drop=True).to_pickle("X_train.pkl")
"""
STANDARD = """
from sklearn.preprocessing import StandardScaler
scaler = StandardScaler()
z = pd.Series(scaler.fit_transform(y.to_frame())[:, 0])
pd.to_pickle(scaler, "y_scaler.pkl")
"""
FOREST = "model = ExtraTreesRegressor(60, random_state=0).fit(X, y)"


def scaled(shuffles_labels: bool) -> list[ActionRecord]:
    other = "order[::-1]" if shuffles_labels else "order"
    engineer = f"{SHUFFLED}{STANDARD}z.iloc[{other}].reset_index(drop=True).to_pickle('y_train.pkl')"
    undo = "p = pd.read_pickle('y_scaler.pkl').inverse_transform(p.reshape(-1, 1))[:, 0].clip(0)"
    alone = {"modeler_0": f"{MODEL}{FOREST}{SAVE}", "analyst_0": f"{SUBMIT}{undo}{WRITE}"}
    return patched({"engineer_0": ("", engineer)}, NUMBERS, alone)[0]


def test_rows_that_are_shuffled_and_labels_that_are_scaled_as_a_file_says_are_sound() -> None:
    actions = scaled(False)
    assert [each.verdict.blame for each in actions] == [None] * 3
    assert min(each.verdict.score or 0 for each in actions) > 8


def test_labels_shuffled_otherwise_are_still_found() -> None:
    actions = scaled(True)
    assert actions[0].verdict.blame == culprit(actions) == "engineer_0"
    assert (actions[0].verdict.score or 0) <= 1.5


@pytest.mark.parametrize("says", ["pass", "return {}", "return (row for row in X.values)", "return []"])
@pytest.mark.parametrize("seed", [NUMBERS, LABELS])
def test_a_model_that_says_nothing_is_its_writer_s_fault(says: str, seed: int) -> None:
    model = f"class Nothing:\n    def predict(self, X):\n        {says}\nmodel = Nothing()"
    actions, _ = patched({}, seed, {"modeler_0": f"{MODEL}{model}{SAVE}", "analyst_0": f"{SUBMIT}{WRITE}"})
    assert (actions[1].verdict.score, actions[1].verdict.blame) == (1, "modeler_0")
    assert (actions[2].verdict.score or 0) >= 4
    assert culprit(actions) == "modeler_0"


def test_who_negates_what_it_could_undo_is_to_blame() -> None:
    engineer = f"import pandas as pd{STANDARD}z.to_pickle('y_train.pkl')"
    undo = (
        "p = pd.read_pickle('y_scaler.pkl').inverse_transform(p.reshape(-1, 1))[:, 0]; p = 2 * p.mean() - p\n"
    )
    alone = {"modeler_0": f"{MODEL}{FOREST}{SAVE}", "analyst_0": f"{SUBMIT}{undo}p = p.clip(0){WRITE}"}
    actions, _ = patched({"engineer_0": ("", engineer)}, NUMBERS, alone)
    assert culprit(actions) == "analyst_0"
    assert (actions[2].verdict.score or 0) < 4


@pytest.mark.parametrize("undoes", [True, False])
def test_a_scale_of_the_engineer_and_a_scaler_of_the_modeler_are_both_undone(undoes: bool) -> None:
    engineer = f"import pandas as pd{STANDARD}z.to_pickle('y_train.pkl')"
    modeler = (
        f"{MODEL}from sklearn.preprocessing import StandardScaler\ntool = StandardScaler().fit(X)\n"
        f"model = ExtraTreesRegressor(60, random_state=0).fit(tool.transform(X), y)\n"
        f"pd.to_pickle(tool, 'tool.pkl'){SAVE}"
    )
    undo = "p = model.predict(pd.read_pickle('tool.pkl').transform(X))\n"
    undo += "p = pd.read_pickle('y_scaler.pkl').inverse_transform(p.reshape(-1, 1))[:, 0].clip(0)"
    alone = {"modeler_0": modeler, "analyst_0": f"{SUBMIT}{undo if undoes else 'p = p.clip(0)'}{WRITE}"}
    actions, _ = patched({"engineer_0": ("", engineer)}, NUMBERS, alone)
    assert [each.verdict.blame for each in actions] == [None] * 3
    assert min(each.verdict.score or 0 for each in actions[: 2 + undoes]) > 8
    assert (actions[2].verdict.score or 0) >= 6
