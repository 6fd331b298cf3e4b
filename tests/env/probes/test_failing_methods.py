"""A method that fails costs a model nothing where the task's metric does not take what it yields."""

from __future__ import annotations

import pytest

from sprint_play import NUMBERS, SHARES, TARGETS, WORDS, blames, sprint

WRAP = '''
import pickle
from pathlib import Path
Path("wrapped.py").write_text("""
class Wrapped:
    def __init__(self, inner):
        self.inner = inner
        self.classes_ = getattr(inner, "classes_", None)

    def {works}(self, table):
        return self.inner.{works}(table)

    def {fails}(self, table):
        {failure}
""")
from wrapped import Wrapped
with open("model.pkl", "wb") as f:
    pickle.dump(Wrapped(m), f)
'''
FAILURES = {
    "delegates": "return self.inner.no_such_method(table)",
    "says so": 'raise NotImplementedError("there are none")',
    "exits": "raise SystemExit(3)",
}


def wrapped(works: str, fails: str, failure: str) -> str:
    return WRAP.format(works=works, fails=fails, failure=FAILURES[failure])


@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("seed", [NUMBERS, WORDS, TARGETS])
def test_probabilities_that_nobody_needs_may_fail(seed: int, failure: str) -> None:
    played = sprint(modeler=wrapped("predict", "predict_proba", failure), seed=seed)
    alone = sprint(seed=seed)
    assert (played.scores, played.culprit) == (alone.scores, alone.culprit)


def test_predictions_that_nobody_needs_may_fail() -> None:
    played = sprint(modeler=wrapped("predict_proba", "predict", "says so"), seed=SHARES)
    assert played.scores == sprint(seed=SHARES).scores, played
    assert played.culprit is None


@pytest.mark.parametrize("failure", FAILURES)
def test_probabilities_that_the_metric_takes_may_not_fail(failure: str) -> None:
    played = sprint(modeler=wrapped("predict", "predict_proba", failure), seed=SHARES)
    assert blames(played, "modeler_0"), played
    assert "cannot predict" in played.reasons[1]


@pytest.mark.parametrize("failure", ["delegates", "exits"])
def test_predictions_that_the_metric_takes_may_not_fail(failure: str) -> None:
    played = sprint(modeler=wrapped("predict_proba", "predict", failure), seed=WORDS)
    assert blames(played, "modeler_0"), played
