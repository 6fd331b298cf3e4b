"""Boosters of other packages, pickled or in their own formats: examined, or unknown; never bad work."""

from __future__ import annotations

import pytest

from mappa_env.probes.formats import format_of, why_unknown
from probing import played, rewards

XGBOOST = """
import xgboost, numpy as np
words = not np.issubdtype(y.to_numpy().dtype, np.number)
codes, labels = np.unique(y, return_inverse=True) if words else ([], y)
task = {0: {}, 2: {'objective': 'binary:logistic'}}.get(
    len(codes), {'objective': 'multi:softprob', 'num_class': len(codes)})
b = xgboost.train({**task, 'seed': 0, 'nthread': 1}, xgboost.DMatrix(X, label=labels), 20)
"""
LIGHTGBM = """
import lightgbm, numpy as np
words = not np.issubdtype(y.to_numpy().dtype, np.number)
codes, labels = np.unique(y, return_inverse=True) if words else ([], y)
task = {0: {'objective': 'regression'}, 2: {'objective': 'binary'}}.get(
    len(codes), {'objective': 'multiclass', 'num_class': len(codes)})
task |= {'seed': 0, 'num_threads': 1, 'verbose': -1}
b = lightgbm.train(task, lightgbm.Dataset(X, label=labels), 20)
"""
PICKLES = {
    "xgboost": XGBOOST + "import pickle; pickle.dump(b, open('model.pkl', 'wb'))",
    "xgboost, compressed": XGBOOST + "import joblib; joblib.dump(b, 'model.pkl', compress=3)",
    "lightgbm": LIGHTGBM + "import joblib; joblib.dump(b, 'model.pkl')",
    "xgboost's classifier": XGBOOST
    + "import pickle\nkind = xgboost.XGBClassifier if words else xgboost.XGBRegressor\n"
    "pickle.dump(codes, open('labels.pkl', 'wb'))\n"
    "pickle.dump(kind(n_estimators=20, n_jobs=1).fit(X, labels), open('model.pkl', 'wb'))",
    "lightgbm's classifier": LIGHTGBM
    + "import pickle\nkind = lightgbm.LGBMClassifier if words else lightgbm.LGBMRegressor\n"
    "pickle.dump(kind(n_estimators=20, n_jobs=1, verbose=-1).fit(X, y), open('model.pkl', 'wb'))",
}
TWO, THREE, NUMBERS = 5, 15, 8
"""Seeds of tasks with so many labels, which are words, or with numbers to predict."""
OWN = {
    "model.json": XGBOOST + "b.save_model('model.json')",
    "model.ubj": XGBOOST + "b.save_model('model.ubj')",
    "raw JSON": XGBOOST + "open('model.json', 'wb').write(b.save_raw('json'))",
    "raw UBJSON": XGBOOST + "open('model.ubj', 'wb').write(b.save_raw('ubj'))",
    "dumped": XGBOOST + "b.dump_model('model.json', dump_format='json')",
    "model.txt": LIGHTGBM + "b.save_model('model.txt')",
    "tree as JSON": LIGHTGBM + "import json; json.dump(b.dump_model(), open('model.json', 'w'), indent=1)",
}
MOVE = """
import glob, os
for name in glob.glob('model.[jtu]*'):
    os.replace(name, 'model.pkl')
"""


def needed(program: str) -> None:
    pytest.importorskip("xgboost" if "xgboost" in program else "lightgbm", reason="`make formats` has it")


@pytest.mark.parametrize("seed", [TWO, THREE, NUMBERS])
@pytest.mark.parametrize("name", PICKLES)
def test_a_pickled_booster_is_examined(name: str, seed: int) -> None:
    """And gets much the score of scikit-learn's forest."""
    needed(PICKLES[name])
    assert rewards(modeler=PICKLES[name], seed=seed)[1] > 6


@pytest.mark.parametrize("name", OWN)
def test_a_booster_in_its_own_format_is_unknown(name: str) -> None:
    needed(OWN[name])
    action = played("", OWN[name] + MOVE, TWO)[-1]
    assert (action.verdict.status, action.reward_valid) == ("abstain", False)


@pytest.mark.parametrize("head", [b"{U\xf8\xff", b"{L\x07\x07\x07junk", b"\x89HDFjunk", b"SQLite format 3?"])
def test_junk_that_starts_much_like_a_format_is_junk(head: bytes) -> None:
    assert format_of(head) == "pickle"


@pytest.mark.parametrize(
    ("head", "form"),
    [
        (b'{"learner":{"attributes":{},', "JSON"),
        (b'{\n  "name": "tree"', "JSON"),
        (b'[{"nodeid": 0,', "JSON"),
        (b"{L\x00\x00\x00\x00\x00\x00\x00\x07learner", "UBJSON"),
        (b"{i\x07learner", "UBJSON"),
        (b"tree\nversion=v4\n", "LightGBM text"),
        (b"CBM1\x00\x00", "CatBoost"),
    ],
)
def test_formats_of_boosters_are_unknown(head: bytes, form: str) -> None:
    assert format_of(head) == form
    assert form in why_unknown(head, 1000)
