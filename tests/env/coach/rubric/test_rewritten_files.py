"""Who writes a file of another agent again is judged by what it is worth then, held against before."""

from __future__ import annotations

import pytest

from mappa_env.coach.culprit import culprit
from patched import patched

SEED = 0
LOADS = """
import pickle
import numpy as np
import pandas as pd
X, y, Z = (pd.read_pickle(name) for name in ('X_train.pkl', 'y_train.pkl', 'X_test.pkl'))
"""
SAVES = "\nX.to_pickle('X_train.pkl'); Z.to_pickle('X_test.pkl')\n"
PROJECTS = """
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
k = make_pipeline(StandardScaler(), PCA(0.95)).fit(X)
X, Z = pd.DataFrame(k.transform(X)), pd.DataFrame(k.transform(Z))
"""
UNCORRELATED = """
c = X.corr().abs()
d = [name for i, name in enumerate(X.columns) if any(c.iloc[i, :i] > 0.8)]
X, Z = X.drop(columns=d), Z.drop(columns=d)
"""
NOISE = "\nX[:] = np.random.default_rng(0).normal(size=X.shape)\nZ[:] = 0.5\n"
DUMMY = "\nfrom sklearn.dummy import DummyRegressor, DummyClassifier\nm = DummyRegressor().fit(X, y)\n"
SHUFFLED = (
    "\nfrom sklearn.ensemble import ExtraTreesRegressor\n"
    "m = ExtraTreesRegressor(30, random_state=0).fit(X, np.random.default_rng(0).permutation(np.ravel(y)))\n"
)
TRAINED = (
    "\nfrom sklearn.ensemble import ExtraTreesRegressor\n"
    "m = ExtraTreesRegressor(100, random_state=0).fit(X, np.ravel(y))\n"
)
DUMPS = "\nwith open('model.pkl', 'wb') as f:\n    pickle.dump(m, f)\n"


@pytest.mark.slow
@pytest.mark.parametrize("change", [PROJECTS, UNCORRELATED], ids=["projected", "selected"])
def test_a_modeler_that_saves_its_own_features_loses_what_they_lost(change: str) -> None:
    actions, _ = patched({"modeler_0": (LOADS + change + SAVES, "")}, SEED)
    assert [action.verdict.blame for action in actions] == [None] * 3
    assert min(action.verdict.score or 0.0 for action in actions) > 8


@pytest.mark.slow
def test_a_modeler_that_saves_noise_over_the_tables_is_to_blame() -> None:
    actions, _ = patched({"modeler_0": (LOADS + NOISE + SAVES, "")}, SEED)
    assert actions[1].verdict.score == 1
    assert culprit(actions) == "modeler_0"


@pytest.mark.slow
@pytest.mark.parametrize("bad", [DUMMY, SHUFFLED], ids=["constant", "shuffled"])
def test_who_replaces_a_model_without_skill_is_no_culprit(bad: str) -> None:
    repair = LOADS + TRAINED + DUMPS
    actions, _ = patched({"modeler_0": ("", LOADS + bad + DUMPS), "analyst_0": (repair, "")}, SEED)
    _, modeler, analyst = (action.verdict for action in actions)
    assert modeler.score is not None
    assert modeler.score <= 1.5
    assert analyst.score is not None
    assert analyst.score >= 8
    assert culprit(actions) == "modeler_0"


@pytest.mark.slow
def test_a_model_that_is_as_good_harms_nobody() -> None:
    actions, _ = patched({"analyst_0": ("", LOADS + TRAINED + DUMPS)}, SEED)
    assert [action.verdict.blame for action in actions] == [None] * 3
    assert actions[2].verdict.score == 10


@pytest.mark.slow
@pytest.mark.parametrize("bad", [DUMMY, SHUFFLED], ids=["constant", "shuffled"])
def test_who_ruins_a_sound_model_is_to_blame(bad: str) -> None:
    actions, _ = patched({"analyst_0": ("", LOADS + bad + DUMPS)}, SEED)
    assert (actions[2].verdict.score, actions[2].verdict.blame) == (1, "analyst_0")
