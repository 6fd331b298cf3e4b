"""Plays real episodes of the sprint: the scripted experts' programs, with code put after or in place of them."""

from __future__ import annotations

from typing import NamedTuple

import gymnasium as gym

from mappa_env import team_env
from mappa_env.coach.culprit import culprit
from mappa_env.scripted import make_team
from probing import code_of

AGENTS = ("engineer_0", "modeler_0", "analyst_0")


class Played(NamedTuple):
    """The scores of engineer, modeler and analyst (None: the coach abstained), the reasons, whom it blames."""

    scores: tuple[float | None, ...]
    culprit: str | None
    reasons: tuple[str, ...]


def sprint(
    engineer: str = "",
    modeler: str = "",
    analyst: str = "",
    *,
    seed: int = 3,
    instead: bool = False,
) -> Played:
    """One episode. Each text follows the expert's program of its agent; ``instead``: it takes its place."""
    env = gym.make("mappa/DSBenchSprint-v0", coach="rubric")
    _, info = env.reset(seed=seed)
    episode = team_env(env).episode
    team = make_team("dsbench_sprint", "expert")
    team.reset(episode.task, seed=1)
    for agent, more in zip(AGENTS, (engineer, modeler, analyst), strict=True):
        assert info["agent"] == agent
        expert = code_of(team.act(agent, episode.turn, episode.actions))
        program = more if instead and more else f"{expert}\n{more}"
        target, key = episode.task.meta["target"], episode.task.meta["id"]
        program = program.replace("TARGET", repr(target)).replace("IDS", repr(key))
        _, _, _, _, info = env.step(f"```python\n{program}\n```")
    verdicts = [action.verdict for action in episode.actions]
    env.close()
    return Played(
        tuple(None if each is None or each.status != "ok" else each.score for each in verdicts),
        culprit(episode.actions),
        tuple("" if each is None else each.reasoning for each in verdicts),
    )
