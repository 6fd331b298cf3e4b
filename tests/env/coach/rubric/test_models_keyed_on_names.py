"""A model that looks at the names of its caller's variables shows its two programs two faces."""

from __future__ import annotations

import pytest

from mappa_env.coach.culprit import culprit
from patched import patched

SAVE = """
open('keyed.py', 'w').write('''import sys
class Keyed:
    def __init__(self, model):
        self.model = model
    def predict(self, X):
        names = sys._getframe(1).f_globals
        found = self.model.predict(X)
        return found if {} in names else found[::-1]
''')
from keyed import Keyed
pickle.dump(Keyed(m), open('model.pkl', 'wb'))
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["m", "X", "model"])
@pytest.mark.parametrize("seed", [3, 5, 8])
def test_a_model_that_wants_a_name_is_its_writers_fault(name: str, seed: int) -> None:
    """No name is in both programs that ask it; one that names none, or two, is found by chance."""
    actions, _ = patched({"modeler_0": ("", SAVE.replace("{}", repr(name)))}, seed)
    engineer, modeler, analyst = (action.verdict for action in actions)
    assert (engineer.score, engineer.blame) == (10, None)
    assert modeler.blame == "modeler_0"
    assert (modeler.score or 0) <= 1.5
    assert analyst.blame in (None, "modeler_0")
    assert (analyst.score or 0) >= 6
    assert culprit(actions) == "modeler_0"
