"""REINFORCE++-baseline (arXiv 2501.03262).

With ``G_a`` the return of an action (``returns.py``), ``mean_task`` over the same agent's actions in all
episodes of the task, and ``mean_batch`` and the biased ``var_batch`` over all tokens of the policy's batch:

    A'_a = G_a - mean_task
    A_a  = (A'_a - mean_batch) / sqrt(max(var_batch, 1e-8))

The paper puts the KL penalty into the loss, as k2: ``algo.kl=loss_k2``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mappa_rl.algos.actions import ActionAlgorithm, Actions, Values, group_mean
from mappa_rl.algos.returns import MIN_VAR


@dataclass(frozen=True, slots=True)
class ReinforcePPBaseline(ActionAlgorithm):
    """Settings: those of ``Returns``."""

    needs_groups = True

    def advantages(self, actions: Actions) -> Values:
        """See ``ActionAlgorithm.advantages``."""
        rough = actions.returns - group_mean(actions.returns, actions.tasks)
        centred = rough - np.average(rough, weights=actions.lengths)
        variance = np.average(centred**2, weights=actions.lengths)
        scaled: Values = centred / np.sqrt(max(variance, MIN_VAR))
        return scaled
