"""A model that lies in its file beside an encoder, a scaler or notes: nobody is blamed for that form."""

from __future__ import annotations

import pytest

from mappa_env.coach.culprit import culprit
from mappa_env.types import ActionRecord
from patched import patched

LABELS, NUMBERS = 1, 3
"""Seeds of tasks that ask for labels, and for numbers."""
START = """import pickle
import pandas as pd
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.linear_model import LinearRegression
from sklearn.preprocessing import LabelEncoder, StandardScaler
X, y = pd.read_pickle("X_train.pkl"), pd.read_pickle("y_train.pkl")
"""
ENCODED = (
    "enc = LabelEncoder().fit(y)\nmodel = ExtraTreesClassifier(40, random_state=0).fit(X, enc.transform(y))\n"
)
SCALED = "tool = StandardScaler().fit(X)\nmodel = LinearRegression().fit(tool.transform(X), y)\n"
SAVE = "\nwith open('model.pkl', 'wb') as file:\n    pickle.dump(handed, file)"
READ = """import pickle
import pandas as pd
test, form = pd.read_csv("test.csv"), pd.read_csv("sample_submission.csv")
X, handed = pd.read_pickle("X_test.pkl"), pickle.load(open("model.pkl", "rb"))
"""
WRITE = """
key, target = form.columns
pd.DataFrame({key: test[key], target: p}).to_csv("submission.csv", index=False)
"""


def played(seed: int, handed: str, uses: str, fit: str = ENCODED) -> list[ActionRecord]:
    alone = {
        "modeler_0": f"{START}{fit}handed = {handed}{SAVE}",
        "analyst_0": f"{READ}{uses}{WRITE}" if uses else "",
    }
    return patched({}, seed, alone)[0]


@pytest.mark.parametrize(
    ("handed", "uses"),
    [
        ("(model, enc)", "model, enc = handed\np = enc.inverse_transform(model.predict(X))"),
        ("[enc, model]", "p = handed[0].inverse_transform(handed[1].predict(X))"),
        (
            "{'enc': enc, 'clf': model, 'columns': list(X.columns)}",
            "p = handed['enc'].inverse_transform(handed['clf'].predict(X[handed['columns']]))",
        ),
    ],
)
def test_a_model_beside_its_encoder_is_sound(handed: str, uses: str) -> None:
    actions = played(LABELS, handed, uses)
    assert [(each.verdict.score, each.verdict.blame) for each in actions] == [(10, None)] * 3


@pytest.mark.parametrize("uses", ["scaled = handed[1].transform(X)\np = handed[0].predict(scaled)", ""])
def test_a_model_that_needs_its_scaler_is_not_judged(uses: str) -> None:
    actions = played(NUMBERS, "(model, tool)", uses, SCALED)
    assert (actions[1].verdict.score, actions[1].verdict.blame) == (None, None)
    assert actions[2].verdict.blame is None
    assert culprit(actions) is None


def test_who_does_not_take_the_model_out_blames_nobody() -> None:
    actions = played(LABELS, "(model, enc)", "")
    assert [each.verdict.blame for each in actions] == [None] * 3
    assert culprit(actions) is None


@pytest.mark.parametrize(
    "handed", ["(X.mean(), y[:3])", "{'columns': list(X.columns)}", "[]", "[type(model)]"]
)
def test_a_thing_without_a_model_in_it_is_unusable(handed: str) -> None:
    actions = played(LABELS, handed, "")
    assert (actions[1].verdict.score, actions[1].verdict.blame) == (1, "modeler_0")
    assert culprit(actions) == "modeler_0"


FOLDS = """from sklearn.base import clone
import numpy as np
at = np.arange(len(X)) % 4
folds = [clone(model).fit(X[at != k], y[at != k]) for k in range(4)]
"""
CLUSTERS = "from sklearn.cluster import KMeans\nparts = KMeans(2, n_init=1, random_state=0).fit(X)\n"
FITTED = "model = ExtraTreesRegressor(60, random_state=0).fit(X, y)\n"
SEVERAL = {
    "folds": (FOLDS, "folds", "p = np.mean([each.predict(X) for each in handed], axis=0)"),
    "a tuple": (FOLDS, "tuple(folds[:2])", "p = (handed[0].predict(X) + handed[1].predict(X)) / 2"),
    "deeper": (
        FOLDS,
        "{'folds': folds, 'weights': [0.25] * 4}",
        "p = sum(w * each.predict(X) for w, each in zip(handed['weights'], handed['folds']))",
    ),
    "segments": (CLUSTERS, "{'price': model, 'parts': parts}", "p = handed['price'].predict(X)"),
    "a part of a forest": (
        "",
        "model.estimators_[:9]",
        "p = np.mean([t.predict(X) for t in handed], axis=0)",
    ),
}


@pytest.mark.parametrize("name", SEVERAL)
def test_nobody_can_tell_what_several_models_are_for(name: str) -> None:
    more, handed, uses = SEVERAL[name]
    fit = f"from sklearn.ensemble import ExtraTreesRegressor\n{FITTED}{more}"
    actions = played(NUMBERS, handed, f"import numpy as np\n{uses}", fit)
    assert (actions[1].verdict.score, actions[1].verdict.blame) == (None, None)
    score = actions[2].verdict.score
    assert score is not None
    assert (score >= 7, actions[2].verdict.blame) == (True, None)
    assert culprit(actions) is None


@pytest.mark.parametrize("name", ["folds", "segments"])
def test_who_fails_over_several_models_is_not_judged(name: str) -> None:
    more, handed, _ = SEVERAL[name]
    fit = f"from sklearn.ensemble import ExtraTreesRegressor\n{FITTED}{more}"
    actions = played(NUMBERS, handed, "", fit)
    assert [(each.verdict.score, each.verdict.blame) for each in actions[1:]] == [(None, None)] * 2
    assert culprit(actions) is None


@pytest.mark.parametrize(
    ("handed", "place"),
    [("{'one': model, 'best': model}", "['best']"), ("[model, 'notes', model]", "[0]"), ("[model]", "[0]")],
)
def test_a_model_under_several_names_is_one(handed: str, place: str) -> None:
    fit = f"from sklearn.ensemble import ExtraTreesRegressor\n{FITTED}"
    actions = played(NUMBERS, handed, f"p = handed{place}.predict(X)", fit)
    alone = played(NUMBERS, "model", "p = handed.predict(X)", fit)
    assert [each.verdict.score for each in actions] == [each.verdict.score for each in alone]
    assert all(each.verdict.score for each in actions)


FOREST = "from sklearn.ensemble import ExtraTreesRegressor as Forest\n"
BESIDE = {
    "a scaler": (
        FOREST
        + "tool = StandardScaler().fit(X)\nhanded = Forest(50, random_state=0).fit(tool.transform(X), y)\n"
        "pickle.dump(tool, open('scaler.pkl', 'wb'))",
        "p = handed.predict(pickle.load(open('scaler.pkl', 'rb')).transform(X))",
    ),
    "a scaler by joblib": (
        FOREST + "import joblib\ntool = StandardScaler().fit(X)\n"
        "handed = Forest(50, random_state=0).fit(tool.transform(X), y)\n"
        "joblib.dump(tool, 'prep.joblib', compress=3)",
        "import joblib\np = handed.predict(joblib.load('prep.joblib').transform(X))",
    ),
    "more columns": (
        FOREST + "from sklearn.preprocessing import PolynomialFeatures\ntool = PolynomialFeatures(2).fit(X)\n"
        "handed = Forest(50, random_state=0).fit(tool.transform(X), y)\n"
        "pickle.dump(tool, open('poly.pkl', 'wb'))",
        "p = handed.predict(pickle.load(open('poly.pkl', 'rb')).transform(X))",
    ),
    "a list of columns": (
        FOREST
        + "import json\ncols = list(X.columns[:-1])\nhanded = Forest(50, random_state=0).fit(X[cols], y)\n"
        "json.dump(cols, open('columns.json', 'w'))",
        "import json\np = handed.predict(X[json.load(open('columns.json'))])",
    ),
}


@pytest.mark.parametrize(("fit", "uses"), BESIDE.values(), ids=BESIDE)
def test_a_model_is_tried_with_what_its_writer_handed_on_beside_it(fit: str, uses: str) -> None:
    actions = played(NUMBERS, "handed", uses, f"{fit}\n")
    assert [each.verdict.blame for each in actions] == [None] * 3
    assert min(each.verdict.score or 0 for each in actions) > 8
    assert culprit(actions) is None


@pytest.mark.parametrize(("fit", "uses"), BESIDE.values(), ids=BESIDE)
def test_who_does_not_use_what_lies_beside_a_model_is_blamed_by_nobody(fit: str, uses: str) -> None:
    actions = played(NUMBERS, "handed", "p = handed.predict(X)", f"{fit}\n")
    engineer, modeler, analyst = (each.verdict for each in actions)
    assert (engineer.blame, modeler.blame, analyst.blame) == (None, None, None)
    assert (analyst.score or 0) >= 6
    assert culprit(actions) is None


@pytest.mark.parametrize(
    "beside",
    [
        "pickle.dump(StandardScaler().fit(X), open('scaler.pkl', 'wb'))",
        "import json; json.dump(list(X.columns), open('columns.json', 'w'))",
        "import json; json.dump({'rmse': 0.1}, open('metrics.json', 'w'))",
        "pickle.dump(LinearRegression().fit(X, y), open('better.pkl', 'wb'))",
        "import os; pickle.dump(os.getcwd, open('odd.pkl', 'wb'))",
        "open('scaler.pkl', 'wb').write(b'nothing')",
    ],
)
def test_a_file_beside_a_bad_model_is_no_excuse(beside: str) -> None:
    bad = "handed = LinearRegression().fit(X, y.sample(frac=1, random_state=1))\n"
    actions = played(NUMBERS, "handed", "p = handed.predict(X)", f"{bad}{beside}\n")
    assert (actions[1].verdict.blame, actions[2].verdict.blame) == ("modeler_0", "modeler_0")
    assert (actions[1].verdict.score or 0) <= 2.5
    assert culprit(actions) == "modeler_0"


def test_another_agent_s_scaler_makes_no_model_better() -> None:
    engineer = "from sklearn.preprocessing import StandardScaler\nimport pickle\n"
    engineer += "pickle.dump(StandardScaler().fit(a), open('scaler.pkl', 'wb'))"
    modeler = (
        f"{START}tool = StandardScaler().fit(X)\nhanded = LinearRegression().fit(tool.transform(X), y){SAVE}"
    )
    actions, _ = patched({"engineer_0": ("", engineer)}, NUMBERS, {"modeler_0": modeler})
    assert (actions[1].verdict.blame, culprit(actions)) == ("modeler_0", "modeler_0")
