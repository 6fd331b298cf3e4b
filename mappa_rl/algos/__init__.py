"""From rewards to advantages: one algorithm per file, chosen by name."""

from mappa_rl.algos.actions import ActionAlgorithm, Actions
from mappa_rl.algos.base import Advantages, Algorithm, CriticAlgorithm
from mappa_rl.algos.choice import ALGORITHMS, make_algorithm

__all__ = [
    "ALGORITHMS",
    "ActionAlgorithm",
    "Actions",
    "Advantages",
    "Algorithm",
    "CriticAlgorithm",
    "make_algorithm",
]
