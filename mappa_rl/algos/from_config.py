"""Build the algorithm that the ``algo`` section of a config asks for. Needs no torch."""

from __future__ import annotations

from mappa_rl.algos.base import Algorithm
from mappa_rl.algos.choice import ALGORITHMS, declared, make
from mappa_rl.config import Algo, Config
from mappa_rl.errors import ConfigError

KEYS = ("mode", "gamma", "reward_scale", "reward_clip", "kl_coef")
"""Keys of the ``algo`` section that become settings of an algorithm with fields of these names."""


def algorithm_of(config: Config) -> Algorithm:
    """Build the algorithm of a config.

    Raises:
        ConfigError: The algorithm is unknown, or settings do not fit it.
    """
    algo = config.algo
    if algo.kl != "reward":  # the algorithm sees no penalty, whether it takes kl_coef or not
        algo = algo.model_copy(update={"kl_coef": Algo.model_fields["kl_coef"].default})
    settings = declared(ALGORITHMS, algo.name, KEYS, algo, algo.options)
    if algo.kl != "reward" and "kl_coef" in settings:
        settings["kl_coef"] = 0.0
    made: Algorithm = make(ALGORITHMS, algo.name, settings)
    if made.needs_groups and config.rollout.group_size == 1:
        raise ConfigError(
            f"algo.name={algo.name} compares episodes of the same task, but rollout.group_size=1 samples "
            "only one. Set rollout.group_size=8, or another divisor of rollout.episodes_per_step."
        )
    if made.sums_rewards and config.repeats_outcome:
        raise ConfigError(
            f"algo.name={algo.name} sums an episode's rewards, and with env.shaping={config.env.shaping} "
            "every action's reward already contains the outcome: it would count once per turn. Use an "
            "algorithm that does not sum; gigpo does not with algo.options.total=mean."
        )
    return made
