"""GRPO (arXiv 2402.03300), with a reward per action as in its section 4.1.3.

Over the actions ``g`` of one agent in all episodes of one task, with returns ``G_a`` (``returns.py``),

    A_a = (G_a - mean_g) / (std_g + 1e-6)        with the biased standard deviation.

With one action per episode that is rewarded for the outcome, this is the published outcome rule. It differs
from the paper in two points. The paper normalises rewards before it sums them; here returns are normalised.
The paper divides the loss by the length of each answer; the losses here are one mean over all tokens.
"""

from __future__ import annotations

from dataclasses import dataclass

from mappa_rl.algos.actions import ActionAlgorithm, Actions, Values, normalised


@dataclass(frozen=True, slots=True)
class GRPO(ActionAlgorithm):
    """Settings: those of ``Returns``."""

    needs_groups = True

    def advantages(self, actions: Actions) -> Values:
        """See ``ActionAlgorithm.advantages``."""
        return normalised(actions.returns, actions.tasks)
