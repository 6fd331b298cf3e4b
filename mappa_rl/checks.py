"""What a run asks of its environment and its parts, checked before anything long begins."""

from __future__ import annotations

import gymnasium as gym

import mappa_env  # noqa: F401  (registers the environments)
from mappa_env.episode import Episode
from mappa_env.registration import card_of, find_card
from mappa_rl.algorithm import algorithm_of
from mappa_rl.config import Config
from mappa_rl.errors import ConfigError
from mappa_rl.policies import PolicyMap
from mappa_rl.sampling import policy_temperatures


def check_run(config: Config) -> None:
    """Raises ConfigError, PolicyError or EngineError for the first thing that stands in the way."""
    from mappa_rl.engines.make import check_engine  # torch only where something is about to run

    algorithm_of(config)
    check_coach(config)
    check_sampling(config)
    check_engine(config)


def check_sampling(config: Config) -> None:
    """Raises ConfigError where the sampling of single agents does not fit the team or its policies."""
    if config.rollout.agents or config.eval.agents:
        team = find_card(card_of(config.env.id)).team.names
        policy_temperatures(
            config, PolicyMap.from_spec(config.policies.map, team, config.policies.frozen)
        )  # fmt: skip


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
