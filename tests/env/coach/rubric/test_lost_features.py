"""The rubric on features made from the target, which X_test lacks."""

from __future__ import annotations

import pytest

from probing import played

BINS = "X['b'] = pd.qcut(y.rank(method='first'), 10, labels=False).astype(float); Z['b'] = 0.0"
NOISY = "X['b'] = y + rng.normal(size=len(y)) * 0.1 * y.std(); Z['b'] = y.mean()"
RARE = "X['b'] = (np.arange(len(X)) % 40 == 0) * 1.0; Z['b'] = 0.0"
USELESS = "X['b'] = rng.normal(size=len(X)); Z['b'] = 0.0"
REWRITE = """import numpy as np, pandas as pd
rng = np.random.default_rng(0)
X, y, Z = (pd.read_pickle(f"{name}.pkl") for name in ("X_train", "y_train", "X_test"))
y = pd.Series(np.ravel(y)); X, Z = (pd.DataFrame(t).reset_index(drop=True) for t in (X, Z))
CHANGE
X.to_pickle("X_train.pkl"); y.to_pickle("y_train.pkl"); Z.to_pickle("X_test.pkl")"""
SEED = 5
"""Of a task of regression."""


@pytest.mark.parametrize("change", [BINS, NOISY])
def test_a_feature_of_the_target_that_x_test_lacks_is_the_engineers_fault(change: str) -> None:
    *_, engineer, modeler = played(REWRITE.replace("CHANGE", change), "pass", SEED)
    verdicts = [each.verdict for each in (engineer, modeler) if each.verdict is not None]
    assert engineer.reward == 1.5
    assert modeler.reward >= 6
    assert [each.blame for each in verdicts] == ["engineer_0", "engineer_0"]


@pytest.mark.parametrize("change", [RARE, USELESS])
def test_other_columns_of_one_value_accuse_nobody(change: str) -> None:
    *_, engineer, modeler = played(REWRITE.replace("CHANGE", change), "pass", SEED)
    assert engineer.reward > 9
    assert modeler.probe is not None
    assert modeler.probe["checks"]["target_lost"] == []


def test_a_modeler_that_does_without_a_feature_of_the_target_is_innocent() -> None:
    leak = REWRITE.replace("CHANGE", BINS)
    drops = "import pickle, numpy as np, pandas as pd\nfrom sklearn.ensemble import ExtraTreesRegressor\n"
    drops += (
        "X, y = pd.read_pickle('X_train.pkl').drop(columns='b'), np.ravel(pd.read_pickle('y_train.pkl'))\n"
    )
    drops += "pickle.dump(ExtraTreesRegressor(30, random_state=0).fit(X, y), open('model.pkl', 'wb'))"
    *_, engineer, modeler = played(leak, drops, SEED)
    assert engineer.reward == 1.5
    assert modeler.reward == 6
    assert modeler.verdict is not None
    assert modeler.verdict.blame == "engineer_0"
