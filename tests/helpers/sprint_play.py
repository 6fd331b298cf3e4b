"""Plays real episodes of the sprint: the programs of scripted experts, changed by a test."""

from __future__ import annotations

from typing import NamedTuple

import gymnasium as gym

from mappa_env import team_env
from mappa_env.coach.culprit import culprit
from mappa_env.scripted import make_team
from probing import code_of

AGENTS = ("engineer_0", "modeler_0", "analyst_0")
NUMBERS, WORDS, SHARES, TARGETS = 1, 25, 22, 10
"""Seeds of tasks: labels that are 0 and 1, labels that are words, probabilities of a class, numbers."""
LOAD = """
import pickle
import numpy as np
import pandas as pd
x, y, z = (pd.read_pickle(f"{n}.pkl").reset_index(drop=True) for n in ("X_train", "y_train", "X_test"))
"""
SAVES = {
    "plain": """
for value, name in ((x, "X_train.pkl"), (y, "y_train.pkl"), (z, "X_test.pkl")):
    with open(name, "wb") as f:
        pickle.dump(value, f)
""",
    "pathlib": """
from pathlib import Path
for value, name in zip((x, y, z), ("X_train", "y_train", "X_test")):
    Path(name).with_suffix(".pkl").write_bytes(pickle.dumps(value, protocol=4))
""",
    "helper": """
def save(value: object, name: str, *, kind: str = "pkl") -> None:
    try:
        pd.to_pickle(value, f"{name}.{kind}")
    except OSError as error:
        raise SystemExit(f"cannot save {name}: {error}") from error
for part, value in {"train": x, "test": z}.items():
    save(value, "X_" + part)
save(y, "_".join(("y", "train")))
""",
}
"""How a program saves ``x``, ``y`` and ``z``."""


class Played(NamedTuple):
    """The scores of engineer, modeler and analyst (None: the coach abstained), whom it blames, and why."""

    scores: tuple[float | None, ...]
    culprit: str | None
    reasons: tuple[str, ...]


def sprint(engineer: str = "", modeler: str = "", analyst: str = "", *, seed: int) -> Played:
    """One episode. Each text follows the expert's program of its agent; that of the analyst replaces it."""
    env = gym.make("mappa/DSBenchSprint-v0", coach="rubric")
    _, info = env.reset(seed=seed)
    episode = team_env(env).episode
    team = make_team("dsbench_sprint", "expert")
    team.reset(episode.task, seed=1)
    for agent, more in zip(AGENTS, (engineer, modeler, analyst), strict=True):
        assert info["agent"] == agent
        expert = (
            "" if agent == AGENTS[2] and more else code_of(team.act(agent, episode.turn, episode.actions))
        )
        program = f"{expert}\n{more}"
        for word, meant in (("TARGET", "target"), ("IDS", "id")):
            program = program.replace(word, repr(episode.task.meta[meant]))
        _, _, _, _, info = env.step(f"```python\n{program}\n```")
    verdicts = [action.verdict for action in episode.actions]
    blamed = culprit(episode.actions)
    env.close()
    return Played(
        tuple(each.valid_score for each in verdicts), blamed, tuple(each.reasoning for each in verdicts)
    )


def tables(change: str, how: str = "plain") -> str:
    """A program that changes the tables ``x``, ``y`` and ``z``, and saves them."""
    return f"{LOAD}{change}\n{SAVES[how]}"


def blames(played: Played, agent: str) -> bool:
    """Whether ``agent`` is named and pays by a margin, and those after it are not penalised."""
    at = AGENTS.index(agent)
    mine, later = played.scores[at], [score for score in played.scores[at + 1 :] if score is not None]
    return played.culprit == agent and mine is not None and mine <= 3 and min(later, default=10) >= 4
