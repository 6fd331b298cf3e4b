"""mappa-rl train demo algo.name=examples/algorithm.py:MedianBaseline algo.options.keep=0.5"""

from dataclasses import dataclass

import numpy as np

from mappa_rl.algos import ActionAlgorithm, Actions


@dataclass(frozen=True)
class MedianBaseline(ActionAlgorithm):
    """Return less the agent's median, over the mean distance from it. ``keep``: fraction of actions used."""

    keep: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.keep <= 1:
            raise ValueError(f"keep={self.keep} must be above 0 and at most 1.")

    def advantages(self, actions: Actions) -> np.ndarray:
        out, agents = np.zeros(len(actions.agents)), np.array(actions.agents)
        for agent in set(actions.agents):
            mine = actions.returns[agents == agent]
            away = mine - np.median(mine)
            far = np.abs(away) >= np.quantile(np.abs(away), 1 - self.keep)
            out[agents == agent] = far * away / (np.abs(away).mean() + 1e-6)
        return out
