"""REINFORCE++-baseline (arXiv 2501.03262).

With ``G_a`` the return of an action (``returns.py``), first the mean over the same agent's actions in all
episodes of the task, then per policy over all tokens of the batch (an action counts as often as it has
tokens, the variance is the biased one):

    A'_a = G_a - mean_task
    A_a  = (A'_a - mean_batch) / sqrt(max(var_batch, 1e-8))

The paper puts the KL penalty into the loss, as k2: ``algo.kl_in=loss algo.kl_estimator=k2``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mappa_rl.algos.actions import ActionAlgorithm, Actions, Values, group_mean
from mappa_rl.algos.base import register
from mappa_rl.algos.returns import MIN_VAR


@register("reinforce_pp_baseline")
@dataclass(frozen=True, slots=True)
class ReinforcePPBaseline(ActionAlgorithm):
    """Settings: those of ``Returns``."""

    needs_groups = True

    def advantages(self, actions: Actions) -> Values:
        rough = actions.returns - group_mean(actions.returns, actions.tasks)
        centred = rough - np.average(rough, weights=actions.lengths)
        variance = np.average(centred**2, weights=actions.lengths)
        return centred / np.sqrt(max(variance, MIN_VAR))
