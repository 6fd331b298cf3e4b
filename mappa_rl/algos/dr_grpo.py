"""Dr. GRPO (arXiv 2503.20783): GRPO without the two divisions that bias it.

Over the actions ``g`` of one agent in all episodes of one task, with returns ``G_a`` (``returns.py``),

    A_a = G_a - mean_g

so that tasks which are nearly always or never solved do not weigh more than others. GRPO's other division, by
the length of each answer, is not made by the default ``algo.aggregation``; ``constant`` is the paper's.
"""

from __future__ import annotations

from dataclasses import dataclass

from mappa_rl.algos.actions import ActionAlgorithm, Actions, Values, group_mean


@dataclass(frozen=True, slots=True)
class DrGRPO(ActionAlgorithm):
    """Settings: those of ``Returns``."""

    needs_groups = True

    def advantages(self, actions: Actions) -> Values:
        """See ``ActionAlgorithm.advantages``."""
        return actions.returns - group_mean(actions.returns, actions.tasks)
