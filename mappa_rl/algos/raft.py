"""RAFT, reward-ranked fine-tuning, also called rejection sampling (arXiv 2304.06767).

With ``G_a`` the return of an action (``returns.py``),

    A_a = 1 if G_a >= least, else 0

so every update imitates the actions that were good enough and ignores the others. On policy, the gradient is
that of supervised learning on the accepted actions. With outcome rewards these are those of episodes that
succeeded, as in the paper.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mappa_rl.algos.actions import ActionAlgorithm, Actions, Values
from mappa_rl.errors import ConfigError


@dataclass(frozen=True, slots=True)
class RAFT(ActionAlgorithm):
    """Settings: those of ``Returns``, and ``least``, the smallest scaled return (0-1) that is accepted."""

    least: float = 1.0

    def __post_init__(self) -> None:
        ActionAlgorithm.__post_init__(self)
        if not self.least <= self.reward_clip:
            raise ConfigError(
                f"least={self.least:g} is above reward_clip={self.reward_clip:g}: no action reaches it."
            )

    def advantages(self, actions: Actions) -> Values:
        """See ``ActionAlgorithm.advantages``."""
        return np.where(actions.returns >= self.least, 1.0, 0.0)
