"""Dr. GRPO (arXiv 2503.20783): GRPO without the two divisions that bias it.

Over the actions ``g`` of one agent in all episodes of one task, with returns ``G_a`` (``returns.py``),

    A_a = G_a - mean_g

so that tasks which are nearly always or never solved do not weigh more than others. The other division, by
each answer's own length, is in none of our losses: they are means over all tokens of an update.
"""

from __future__ import annotations

from dataclasses import dataclass

from mappa_rl.algos.actions import ActionAlgorithm, Actions, Values, group_mean
from mappa_rl.algos.base import register


@register("dr_grpo")
@dataclass(frozen=True, slots=True)
class DrGRPO(ActionAlgorithm):
    """Settings: those of ``Returns``."""

    needs_groups = True

    def advantages(self, actions: Actions) -> Values:
        return actions.returns - group_mean(actions.returns, actions.tasks)
