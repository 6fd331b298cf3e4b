"""Files that machine code of other packages reads, which no sandbox observes: nobody pays for that."""

from __future__ import annotations

import pytest

from mappa_env.coach.culprit import culprit
from mappa_env.types import ActionRecord
from patched import patched

SEED = 8
"""Of a task that asks for numbers."""
REASON = "`make formats` has it"
PARQUET = "for name, table in (('X_train', a), ('X_test', b)):\n    table.to_parquet(name + '.pkl')"
FITS = """
import polars as pl
x = pl.read_parquet("X_train.pkl").to_pandas()
import pickle
import pandas as pd
from sklearn.ensemble import ExtraTreesRegressor
y = pd.read_pickle("y_train.pkl")
pickle.dump(ExtraTreesRegressor(40, random_state=0).fit(x, y), open("model.pkl", "wb"))
"""
BOOSTERS = {
    "lightgbm": (
        "import lightgbm as lgb\nlgb.train({'verbose': -1, 'num_threads': 1}, lgb.Dataset(X, y), 40)"
        ".save_model('model.pkl')",
        "import lightgbm as lgb\np = lgb.Booster(model_file='model.pkl').predict(X)",
    ),
    "xgboost": (
        "import xgboost as xgb\nxgb.train({'nthread': 1}, xgb.DMatrix(X, y), 40).save_model('m.ubj')\n"
        "import os; os.replace('m.ubj', 'model.pkl')",
        "import xgboost as xgb\nb = xgb.Booster(model_file='model.pkl')\np = b.predict(xgb.DMatrix(X))",
    ),
}
READS = 'import pandas as pd\nX, y = pd.read_pickle("X_train.pkl"), pd.read_pickle("y_train.pkl")\n'
START = """
import pandas as pd
test, form = pd.read_csv("test.csv"), pd.read_csv("sample_submission.csv")
X = pd.read_pickle("X_test.pkl")
"""
WRITE = """
key, target = form.columns
pd.DataFrame({key: test[key], target: p}).to_csv("submission.csv", index=False)
"""


def play(engineer: str, modeler: str, analyst: str) -> list[ActionRecord]:
    """``engineer``: the end of its program. The others': all of it."""
    alone = {"modeler_0": modeler, "analyst_0": analyst}
    return patched({"engineer_0": ("", engineer)}, SEED, alone)[0]


def handed_on(name: str, analyst: str) -> list[ActionRecord]:
    """The actions with a booster that was saved in its own format."""
    pytest.importorskip(name, reason=REASON)
    actions = play("", READS + BOOSTERS[name][0], f"{START}{analyst}{WRITE}")
    assert (actions[1].verdict.status, actions[1].verdict.blame) == ("abstain", None)
    return actions


def test_tables_that_machine_code_reads_are_as_good_as_pickled_ones() -> None:
    for package in ("polars", "pyarrow"):
        pytest.importorskip(package, reason=REASON)
    analyst = (
        f"{START.replace('read_pickle', 'read_parquet')}p = pd.read_pickle('model.pkl').predict(X){WRITE}"
    )
    actions = play(PARQUET, FITS, analyst)
    assert actions[1].tool is not None
    assert (actions[1].tool.status, actions[1].tool.opened) == ("ok", None), actions[1].tool.stderr
    assert [(each.verdict.score, each.verdict.blame) for each in actions] == [(10, None)] * 3


def test_who_asks_machine_code_for_a_missing_table_is_excused() -> None:
    pytest.importorskip("polars", reason=REASON)
    actions = play("import os\nos.remove('X_train.pkl')", FITS, "1 / 0")
    assert (actions[1].verdict.score, actions[1].verdict.blame) == (6, "engineer_0")
    assert culprit(actions) == "engineer_0"


@pytest.mark.parametrize("name", BOOSTERS)
def test_who_asks_machine_code_for_a_missing_model_is_excused(name: str) -> None:
    pytest.importorskip(name, reason=REASON)
    actions = play("", "import os\nos.listdir()", BOOSTERS[name][1].replace("(X", "(None"))
    assert actions[2].tool is not None
    assert (actions[2].tool.status, actions[2].tool.opened) == ("error", None)
    assert (actions[2].verdict.score, actions[2].verdict.blame) == (6, "modeler_0")
    assert culprit(actions) == "modeler_0"


@pytest.mark.parametrize("name", BOOSTERS)
def test_who_uses_a_booster_in_its_own_format_is_judged_by_its_submission(name: str) -> None:
    actions = handed_on(name, BOOSTERS[name][1])
    assert [each.verdict.blame for each in actions] == [None] * 3
    assert (actions[2].verdict.score or 0) > 6


@pytest.mark.parametrize("name", BOOSTERS)
def test_who_fails_over_a_booster_in_its_own_format_is_not_judged(name: str) -> None:
    package = BOOSTERS[name][1].split("\n")[0]
    for fails in (
        f"{BOOSTERS[name][1]}\nraise ValueError('not the model that I expect')",
        f"{package}\nimport pickle\npickle.load(open('model.pkl', 'rb'))",
    ):
        actions = handed_on(name, fails)
        assert (actions[2].verdict.status, actions[2].verdict.score) == ("abstain", None)
        assert culprit(actions) is None
