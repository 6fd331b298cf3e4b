"""From rewards to advantages: one algorithm a file, by name."""

from mappa_rl.algos import (  # noqa: F401  (they register themselves)
    dr_grpo,
    ema,
    gigpo,
    grpo,
    ppo,
    reinforce_pp,
    reinforce_pp_baseline,
    rloo,
)
from mappa_rl.algos.actions import ActionAlgorithm, Actions
from mappa_rl.algos.base import (
    GROUP,
    Algorithm,
    Credit,
    CriticAlgorithm,
    algorithm_names,
    find_algorithm,
    make_algorithm,
    register,
    settings_of,
)

__all__ = [
    "GROUP",
    "ActionAlgorithm",
    "Actions",
    "Algorithm",
    "Credit",
    "CriticAlgorithm",
    "algorithm_names",
    "find_algorithm",
    "make_algorithm",
    "register",
    "settings_of",
]
