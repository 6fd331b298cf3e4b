"""A change of any file makes the probe look again, as long as later agents would meet it."""

from __future__ import annotations

import gymnasium as gym
import pytest

from mappa_env import team_env
from mappa_env.scripted import make_team
from probing import code_of

READS_ANOTHER = """
import os, pickle
os.replace('model.pkl', 'w.bin')
class Reads:
    def __reduce__(self): return eval, ("__import__('pickle').load(open('w.bin', 'rb'))",)
pickle.dump(Reads(), open('model.pkl', 'wb'))
"""
CHANGES = {
    "deleted": "import os; os.remove('w.bin')",
    "replaced": "import pickle; from sklearn.dummy import DummyRegressor\n"
    "pickle.dump(DummyRegressor().fit([[0]], [0]), open('w.bin', 'wb'))",
}


@pytest.mark.slow
@pytest.mark.parametrize("how", CHANGES)
def test_a_file_that_the_model_reads_is_part_of_it(how: str) -> None:
    env = gym.make("mappa/DSBench-v0", coach="rubric")
    _, info = env.reset(seed=3)
    episode = team_env(env).episode
    team = make_team("dsbench", "expert")
    team.reset(episode.task, seed=1)
    while info["agent"] == "engineer_0":
        _, _, _, _, info = env.step(team.act("engineer_0", episode.turn, episode.actions))
    action = team.act("modeler_0", episode.turn, episode.actions)
    env.step(f"```python\n{code_of(action)}\n{READS_ANOTHER}\n```")
    first = episode.actions[-1].probe
    assert first is not None
    assert first["model"]["predicts"]
    env.step(f"```python\n{CHANGES[how]}\n```")
    second = episode.actions[-1].probe
    assert second is not None
    if how == "deleted":
        assert not second["model"]["loads"]
    else:
        assert second["model"]["type"] == "DummyRegressor"
    env.close()
