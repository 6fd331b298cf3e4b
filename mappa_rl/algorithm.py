"""From the ``algo`` section of a config to the algorithm that it asks for. Needs no torch."""

from __future__ import annotations

from mappa_rl.algos import Algorithm, find_algorithm, make_algorithm, settings_of
from mappa_rl.config import Config
from mappa_rl.errors import ConfigError
from mappa_rl.sections import Algo

_TYPED = ("mode", "gamma", "reward_scale", "reward_clip", "kl_coef")
"""Keys of the section that are settings of the algorithm."""


def algorithm_of(config: Config) -> Algorithm:
    """Raises ConfigError for an algorithm that is not there, and for settings that do not fit it."""
    algo = config.algo
    has = settings_of(find_algorithm(algo.name))
    settings = {}
    for key in _TYPED:
        value = getattr(algo, key)
        if key in algo.options:
            raise ConfigError(f"algo.options.{key}={algo.options[key]!r} has a key of its own: algo.{key}.")
        if key == "kl_coef" and algo.kl_in == "loss":
            value = 0.0 if key in has else Algo.model_fields[key].default
        if key in has:
            settings[key] = value
        elif value != Algo.model_fields[key].default:
            raise ConfigError(
                f"algo.{key}={value!r}: the algorithm {algo.name!r} has no such setting, it has {has}. Leave "
                f"algo.{key} at {Algo.model_fields[key].default!r}."
            )
    made = make_algorithm(algo.name, **settings, **algo.options)
    if made.needs_groups and config.rollout.samples_per_task == 1:
        raise ConfigError(
            f"algo.name={algo.name} compares episodes of the same task, and rollout.samples_per_task=1 plays "
            "one. Set rollout.samples_per_task=8, or another divisor of rollout.episodes_per_step."
        )
    return made
