"""GiGPO, group-in-group policy optimisation (arXiv 2505.10978).

    A_a = A^E_a + omega * A^S_a
    A^E = (R_e - mean) / (std + 1e-6)    over one agent's episodes ``e`` of a task
    A^S = (G_a - mean) / (std + 1e-6)    over the actions of a task that share their role and turn

``R_e`` is the mean reward of the agent's actions in the episode (the paper's sum would count an outcome that
is paid to every action once per turn), ``G_a`` the action's return (``returns.py``). The paper's step groups
are actions taken in the same state; states of a text rarely repeat, so role and turn stand in for them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mappa_rl.algos.actions import ActionAlgorithm, Actions, Values, group_mean, normalised
from mappa_rl.algos.base import register
from mappa_rl.errors import ConfigError


@register("gigpo")
@dataclass(frozen=True, slots=True)
class GiGPO(ActionAlgorithm):
    """Settings: those of ``Returns``, and ``omega``, the weight of the comparison step by step."""

    omega: float = 1.0
    needs_groups = True

    def __post_init__(self) -> None:
        ActionAlgorithm.__post_init__(self)
        if not 0 <= self.omega < np.inf:
            raise ConfigError(f"omega={self.omega} must be 0 or more, and finite.")

    def advantages(self, actions: Actions) -> Values:
        scores = group_mean(actions.rewards, actions.episodes)
        _, first, back = np.unique(actions.episodes, return_index=True, return_inverse=True)
        by_episode = normalised(scores[first], actions.tasks[first])[back]  # each episode counts once
        return by_episode + self.omega * normalised(actions.returns, actions.strata)
