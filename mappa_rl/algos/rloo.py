"""RLOO, REINFORCE with a leave-one-out baseline (arXiv 2402.14740).

With ``G_a`` the return of an action (``returns.py``) and ``others`` the actions of the same agent on the same
task in all *other* episodes,

    A_a = G_a - mean_others

The baseline is independent of the episode, hence unbiased. An action without others gets A_a = 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mappa_rl.algos.actions import ActionAlgorithm, Actions, Values, group_sum


@dataclass(frozen=True, slots=True)
class RLOO(ActionAlgorithm):
    """Settings: those of ``Returns``."""

    needs_groups = True

    def advantages(self, actions: Actions) -> Values:
        """See ``ActionAlgorithm.advantages``."""
        returns, ones = actions.returns, np.ones(len(actions.returns))
        others = group_sum(ones, actions.tasks) - group_sum(ones, actions.episodes)
        total = group_sum(returns, actions.tasks) - group_sum(returns, actions.episodes)
        return np.where(others > 0, returns - total / np.maximum(others, 1), 0.0)
