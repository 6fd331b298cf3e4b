"""The built-in algorithms, and how any algorithm or loss is built from a name and settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mappa_env import plugins
from mappa_env.errors import OptionError
from mappa_rl.algos.base import Algorithm
from mappa_rl.config import Algo
from mappa_rl.errors import ConfigError

ALGORITHMS = plugins.Kind(
    name="algorithm",
    option="algo.name",
    group="mappa.algorithms",
    builtin={
        "reinforce_pp": "mappa_rl.algos.reinforce_pp:ReinforcePP",
        "reinforce_pp_baseline": "mappa_rl.algos.reinforce_pp_baseline:ReinforcePPBaseline",
        "grpo": "mappa_rl.algos.grpo:GRPO",
        "dr_grpo": "mappa_rl.algos.dr_grpo:DrGRPO",
        "rloo": "mappa_rl.algos.rloo:RLOO",
        "gigpo": "mappa_rl.algos.gigpo:GiGPO",
        "raft": "mappa_rl.algos.raft:RAFT",
        "ema": "mappa_rl.algos.ema:EMA",
        "ppo": "mappa_rl.algos.ppo:PPO",
    },
    methods={"token_advantages": (2, ()), "state": (0, ()), "load": (1, ())},
    advice=(
        "Subclass mappa_rl.algos.Algorithm as a frozen dataclass and write token_advantages(self, samples, "
        "reference=None); or subclass ActionAlgorithm and write advantages(self, actions)."
    ),
)


def make_algorithm(name: str, **settings: Any) -> Algorithm:
    """Build an algorithm by name.

    Raises:
        ConfigError: The name is unknown, or the algorithm refuses a setting.
    """
    made: Algorithm = make(ALGORITHMS, name, settings)
    return made


def make(kind: plugins.Kind, name: str, settings: Mapping[str, Any]) -> Any:
    """Build a part as ``kind.make`` does, but raise ConfigError."""
    try:
        return kind.make(name, **settings)
    except OptionError as error:
        raise ConfigError(str(error)) from error


def declared(
    kind: plugins.Kind, name: str, keys: Sequence[str], algo: Algo, options: Mapping[str, Any]
) -> dict[str, Any]:
    """Collect the settings of a part: those of the section's ``keys`` that it takes, and its own ``options``.

    A key that is null leaves the part its own default.

    Raises:
        ConfigError: A key was changed although the part does not take it, or ``options`` repeats a key.
    """
    try:
        takes, any_name = plugins.options_of(kind.find(name), 0)
    except OptionError as error:
        raise ConfigError(str(error)) from error
    for key in keys:
        if key in options:
            raise ConfigError(f"Set algo.{key}, not {key!r} among the options of {kind.option}={name!r}.")
        if key not in takes and not any_name and getattr(algo, key) != type(algo).model_fields[key].default:
            raise ConfigError(
                f"{kind.option}={name!r} ignores algo.{key}; remove it. Its settings are {', '.join(takes)}."
            )
    values = {key: getattr(algo, key) for key in keys if key in takes or any_name}
    return {key: value for key, value in values.items() if value is not None} | dict(options)
