"""Episodes of the experts of DSBench-v0, with code of a test before and after an expert's own."""

from __future__ import annotations

from collections.abc import Mapping

import gymnasium as gym

from mappa_env import team_env
from mappa_env.coach.blame.attribution import attribute
from mappa_env.scripted import make_team
from mappa_env.types import ActionRecord
from probing import code_of


def patched(
    code: Mapping[str, tuple[str, str]], seed: int, alone: Mapping[str, str] | None = None
) -> tuple[list[ActionRecord], int | None]:
    """The actions with code, and the step that backward tracing blames.

    ``code``: agent -> what its program begins and ends with. ``alone``: agent -> its whole program.
    """
    env = gym.make("mappa/DSBench-v0", coach="rubric")
    env.reset(seed=seed)
    running, team, over = team_env(env).episode, make_team("dsbench", "expert"), False
    team.reset(running.task, seed=1)
    while not over:
        agent = str(running.agent)
        action = team.act(agent, running.turn, running.actions)
        if "```" in action:
            first, last = code.get(agent, ("", ""))
            whole = (alone or {}).get(agent) or f"{first}\n{code_of(action)}\n{last}"
            action = f"```python\n{whole}\n```"
        over = env.step(action)[2]
    actions = [action for action in running.actions if action.tool is not None]
    traced = attribute(running.trajectory, running.card).culprit
    env.close()
    return actions, traced
