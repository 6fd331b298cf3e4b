"""Tables that a later agent ruins are its doing, although their first writer had dropped rows."""

from __future__ import annotations

import pytest

from mappa_env.coach.culprit import culprit
from patched import patched

SEED = 0
DROPS = """
import numpy as np
kept = np.arange(len(a)) % 5 != 0
a[kept].to_pickle('X_train.pkl')
y[kept].to_pickle('y_train.pkl')
"""
LOADS = """
import numpy as np
import pandas as pd
X, y = pd.read_pickle('X_train.pkl'), pd.read_pickle('y_train.pkl')
"""
RUINS = {
    "another scale": "np.log1p(y - y.min()).to_pickle('y_train.pkl')",
    "other rows": "y.sample(frac=1, random_state=1).to_pickle('y_train.pkl')",
    "all rows": "pd.read_csv('train.csv').iloc[:, -1].to_pickle('y_train.pkl')",
    "fewer columns": "X.iloc[:, :1].to_pickle('X_train.pkl')",
    "rows of another order": "X.sample(frac=1, random_state=1).to_pickle('X_train.pkl')",
}


@pytest.mark.slow
@pytest.mark.parametrize("ruin", RUINS.values(), ids=RUINS)
def test_who_ruins_tables_is_to_blame(ruin: str) -> None:
    actions, _ = patched({"engineer_0": ("", DROPS), "modeler_0": (f"{LOADS}{ruin}", "")}, SEED)
    engineer, modeler, analyst = (action.verdict for action in actions)
    assert (engineer.score, engineer.blame) == (10, None)
    assert (modeler.score, modeler.blame) == (1, "modeler_0")
    assert analyst.blame in (None, "modeler_0")
    assert culprit(actions) == "modeler_0"


@pytest.mark.slow
@pytest.mark.parametrize("ruin", [RUINS["another scale"], RUINS["other rows"]])
def test_who_ruins_its_own_tables_is_to_blame(ruin: str) -> None:
    actions, _ = patched({"engineer_0": ("", f"{DROPS}\n{LOADS}{ruin}")}, SEED)
    assert actions[0].verdict.blame == "engineer_0"
    assert {action.verdict.blame for action in actions[1:]} == {"engineer_0"}


AS_GOOD = {
    "another scale of both": "Z = pd.read_pickle('X_test.pkl'); m, s = X.mean(), X.std() + 1e-9\n"
    "((X - m) / s).to_pickle('X_train.pkl'); ((Z - m) / s).to_pickle('X_test.pkl')",
    "the same again": "X.to_pickle('X_train.pkl'); y.to_pickle('y_train.pkl')",
    "smaller numbers": "Z = pd.read_pickle('X_test.pkl')\n"
    "X.astype('float32').to_pickle('X_train.pkl'); Z.astype('float32').to_pickle('X_test.pkl')",
}


@pytest.mark.slow
@pytest.mark.parametrize("again", AS_GOOD.values(), ids=AS_GOOD)
def test_who_writes_sound_tables_again_that_teach_as_much_harms_nobody(again: str) -> None:
    actions, _ = patched({"modeler_0": (f"{LOADS}{again}", "")}, SEED)
    assert [action.verdict.blame for action in actions] == [None] * 3
    assert min(action.verdict.score or 0.0 for action in actions) > 8


SHORTENS = "y.iloc[:-3].to_pickle('y_train.pkl')"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mismatch", "later"),
    [
        ("a[np.arange(len(a)) % 5 != 0].to_pickle('X_train.pkl')", SHORTENS),
        ("y[np.arange(len(y)) % 5 != 0].to_pickle('y_train.pkl')", "X.iloc[:-3].to_pickle('X_train.pkl')"),
        ("b.iloc[:, 1:].to_pickle('X_test.pkl')", "X.iloc[:-3].to_pickle('X_train.pkl')"),
    ],
)
def test_who_changes_tables_that_were_no_match_is_not_to_blame_for_that(mismatch: str, later: str) -> None:
    engineer, modeler = f"import numpy as np\n{mismatch}", f"{LOADS}{later}"
    actions, traced = patched({"engineer_0": ("", engineer), "modeler_0": (modeler, "")}, SEED)
    assert (actions[0].verdict.score, actions[0].verdict.blame) == (1, "engineer_0")
    assert culprit(actions) == "engineer_0"
    assert traced == actions[0].step
