"""Team tasks as environments: ``import mappa_env`` registers every card in gymnasium and pettingzoo.

>>> import gymnasium as gym, mappa_env
>>> env = gym.make("mappa/MathChat-v0")
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mappa_env.registration import register_card, register_shipped

if TYPE_CHECKING:
    from mappa_env.envs.team_env import TeamEnv

__all__ = ["__version__", "register_card", "team_env"]
__version__ = "0.1.0"

register_shipped()


def team_env(env: Any) -> TeamEnv:
    """Return the team environment behind ``env``.

    ``env`` is a Gymnasium or PettingZoo environment of this package, in any number of wrappers. The team
    environment offers what those interfaces lack: task ids, families, the scripted team, the trajectory,
    verdicts and final rewards.

    Raises OptionError for anything else. For a vector environment, pass one of ``env.unwrapped.envs``.
    """
    from mappa_env.envs.team_env import of  # lazy: keeps `import mappa_env` fast

    return of(env)
