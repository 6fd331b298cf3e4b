"""A model that works when the probe asks it and not when the next agent does: its writer is to blame."""

from __future__ import annotations

import time

import pytest

from mappa_env.coach.culprit import culprit
from mappa_env.probes.base import Site
from mappa_env.probes.tabular import TabularProbe
from mappa_env.types import ActionRecord
from patched import patched

SEED = 3
"""Of a task that asks for numbers."""
TWO = """
import cloudpickle
class Model:
    def __init__(self, inner):
        self.inner = inner
    def predict(self, table):
        import os, time
        values = self.inner.predict(table)
        if {when}:
            {face}
        return values
cloudpickle.dump(Model(m), open("model.pkl", "wb"))
"""
FACES = {
    "fails": "raise KeyError('feature_7')",
    "exits": "os._exit(1)",
    "one value": "values = values * 0 + 3.5",
    "in another order": "values = values[::-1]",
}
NOTES = "with open('notes.txt', 'w') as notes:\n    notes.write('to do: predict')\n"
THERE = "os.path.exists('notes.txt')"


def play(modeler: str, analyst: str = NOTES, more: str = "") -> list[ActionRecord]:
    return patched({"modeler_0": ("", modeler), "analyst_0": (analyst, more)}, SEED)[0]


def check(actions: list[ActionRecord]) -> None:
    score = actions[1].verdict.score
    assert score is not None
    assert (score > 9, actions[1].verdict.blame) == (True, None)
    assert (actions[2].verdict.score, actions[2].verdict.blame) == (6, "modeler_0")
    assert culprit(actions) == "modeler_0"


@pytest.mark.parametrize("face", FACES)
def test_a_model_that_lets_down_who_uses_it_is_its_writers_fault(face: str) -> None:
    check(play(TWO.format(when=THERE, face=FACES[face])))


@pytest.mark.large
@pytest.mark.parametrize(("clock", "face"), [("time.time()", "fails"), ("time.monotonic()", "one value")])
def test_a_model_may_look_at_a_clock(clock: str, face: str, monkeypatch: pytest.MonkeyPatch) -> None:
    deadline = {"time.time()": time.time, "time.monotonic()": time.monotonic}[clock]() + 30
    look, asked = TabularProbe.look, []

    def late(self: TabularProbe, site: Site) -> object:
        found = look(self, site)
        if "model.pkl" in site.workspace.present and not asked:
            asked.append(site)
            time.sleep(max(0.0, ends - time.monotonic()))
        return found

    ends = time.monotonic() + 30
    monkeypatch.setattr(TabularProbe, "look", late)
    check(play(TWO.format(when=f"{clock} > {deadline}", face=FACES[face]), ""))


@pytest.mark.parametrize(
    "own", ["p = p['no']", "p = p * 0 + 2", "p = p[::-1]", "raise KeyError('feature_7')"]
)
def test_who_changes_what_a_sound_model_says_is_to_blame(own: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sites = watched(monkeypatch)
    read = "import pandas as pd, pickle\np = pickle.load(open('model.pkl', 'rb')).predict(pd.read_pickle("
    save = "t = pd.read_csv('sample_submission.csv')\nt[t.columns[1]] = p\n"
    save += "t.to_csv('submission.csv', index=False)"
    alone = {"analyst_0": f"{read}'X_test.pkl'))\n{own}\n{save}"}
    actions = patched({}, SEED, alone)[0]
    score = actions[2].verdict.score
    assert score is not None
    assert (score < 3, actions[2].verdict.blame) == (True, "analyst_0")
    assert culprit(actions) == "analyst_0"
    assert [site.again for site in sites][-1]


def test_who_changes_what_a_model_may_need_is_not_excused() -> None:
    model = TWO.format(when="os.path.getsize('test.csv') < 20", face=FACES["fails"])
    actions = play(model, "import os\nos.chmod('test.csv', 0o644)\nopen('test.csv', 'w').write('id\\n')\n")
    assert actions[2].verdict.blame == culprit(actions) == "analyst_0"


def test_a_model_is_not_asked_again_without_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    sites = watched(monkeypatch)
    play("", "")
    assert sites
    assert not any(site.again for site in sites)


def watched(monkeypatch: pytest.MonkeyPatch) -> list[Site]:
    """Where the probe looks from now on."""
    look, sites = TabularProbe.look, list[Site]()

    def seen(self: TabularProbe, site: Site) -> object:
        sites.append(site)
        return look(self, site)

    monkeypatch.setattr(TabularProbe, "look", seen)
    return sites
