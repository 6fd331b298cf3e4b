"""What a run asks of its environment, checked before anything long begins. Needs no torch."""

from __future__ import annotations

import gymnasium as gym

import mappa_env  # noqa: F401  (registers the environments)
from mappa_env.episode import Episode
from mappa_rl.config import Config
from mappa_rl.errors import ConfigError


def check_coach(config: Config) -> None:
    """Raises ConfigError where the coach cannot do what the run asks of it."""
    if not config.sft.corrections_coef:
        return
    env = gym.make(config.env.id, **config.env.options("train"))
    episode: Episode = env.unwrapped.episode  # type: ignore[attr-defined]
    env.close()
    if not episode.coach.corrects:
        raise ConfigError(
            f"sft.corrections_coef={config.sft.corrections_coef} needs a coach that corrects; "
            f"env.coach={config.env.coach!r} does not. Give a language model corrections: true, or use 0."
        )
