"""GRPO (arXiv 2402.03300), with rewards for each step as in its section 4.1.3.

Over the actions ``g`` of one agent in all episodes of one task, with returns ``G_a`` (``returns.py``),

    A_a = (G_a - mean_g) / (std_g + 1e-6)        with the biased standard deviation.

An agent with one action per episode, paid with the outcome, gets the published outcome rule. The paper
normalises the rewards of steps before it sums them, here returns are normalised; and it divides the loss by
each answer's length, where all our losses are one mean over all tokens.
"""

from __future__ import annotations

from dataclasses import dataclass

from mappa_rl.algos.actions import ActionAlgorithm, Actions, Values, normalised
from mappa_rl.algos.base import register


@register("grpo")
@dataclass(frozen=True, slots=True)
class GRPO(ActionAlgorithm):
    """Settings: those of ``Returns``."""

    needs_groups = True

    def advantages(self, actions: Actions) -> Values:
        return normalised(actions.returns, actions.tasks)
