"""From rewards to advantages: one algorithm a file, by name."""

from mappa_rl.algos import reinforce_pp  # noqa: F401  (registers itself)
from mappa_rl.algos.base import Algorithm, Credit, algorithm_names, make_algorithm, register

__all__ = ["Algorithm", "Credit", "algorithm_names", "make_algorithm", "register"]
