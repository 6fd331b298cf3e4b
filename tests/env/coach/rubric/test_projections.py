"""Projections of unscaled columns keep little: weak work, but no fault as long as a model learns from it."""

from __future__ import annotations

import pytest

from mappa_env.coach.culprit import culprit
from patched import patched

PROJECTS = """
import numpy as np
from sklearn.decomposition import PCA, FactorAnalysis, TruncatedSVD
numbers = [name for name in a.columns if a[name].nunique() > 2]
fitted = {}.fit(a[numbers])
a, b = (pd.DataFrame(np.asarray(fitted.transform(each[numbers]))).add_prefix("part") for each in (a, b))
a.to_pickle("X_train.pkl")
b.to_pickle("X_test.pkl")
"""
REVERSED = (
    "a, b = pd.read_pickle('X_train.pkl'), y.iloc[::-1]\nb.reset_index(drop=True).to_pickle('y_train.pkl')"
)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["PCA(2)", "PCA(3, whiten=True)", "TruncatedSVD(3, random_state=0)"])
@pytest.mark.parametrize("seed", [5, 8, 10])
def test_a_projection_from_which_something_can_be_learned_is_nobodys_fault(how: str, seed: int) -> None:
    actions, _ = patched({"engineer_0": ("", PROJECTS.replace("{}", how))}, seed)
    assert (actions[0].verdict.score, actions[0].verdict.blame) == (10, None)
    assert [each.verdict.blame for each in actions] == [None] * 3
    assert min(each.verdict.score or 0 for each in actions) > 5
    assert culprit(actions) is None


@pytest.mark.slow
@pytest.mark.parametrize("seed", [2, 5, 8, 10])
def test_a_projection_of_rows_in_another_order_is_still_worthless(seed: int) -> None:
    actions, _ = patched({"engineer_0": ("", f"{PROJECTS.replace('{}', 'PCA(2)')}\n{REVERSED}")}, seed)
    assert (actions[0].verdict.score, actions[0].verdict.blame) == (1.5, "engineer_0")
    assert culprit(actions) == "engineer_0"
