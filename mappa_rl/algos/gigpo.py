"""GiGPO, group-in-group policy optimisation (arXiv 2505.10978).

    A_a = A^E_a + omega * A^S_a
    A^E = (R_e - mean) / F       over one agent's episodes ``e`` of a task
    A^S = (G_a - mean) / F       over the actions of these episodes that were taken in the same state

``R_e`` sums the agent's rewards in the episode, ``G_a`` is the action's return (``returns.py``): the paper's
is that of ``algo.mode=return_to_go``. ``F`` is the standard deviation plus 1e-6, or 1, the paper's
alternative. States are equal if the agent saw exactly the same tokens; an action whose state is unique has
A^S = 0. These are the paper's equations 3 and 5 to 8. As in GRPO here, the standard deviation is the biased
one; the authors' code takes the unbiased one.

Where every action is rewarded for the outcome, a sum would count it once per turn: ``total=mean`` takes the
mean.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from mappa_rl.algos.actions import ActionAlgorithm, Actions, Labels, Values, group_mean, group_sum, normalised
from mappa_rl.errors import ConfigError


@dataclass(frozen=True, slots=True)
class GiGPO(ActionAlgorithm):
    """Settings: those of ``Returns``, and three more.

    ``omega`` is the weight of ``A^S``; ``norm``: F, ``std`` or ``one``; ``total``: R_e, ``sum`` or ``mean``.
    """

    omega: float = 1.0
    norm: Literal["std", "one"] = "std"
    total: Literal["sum", "mean"] = "sum"
    needs_groups = True

    def __post_init__(self) -> None:
        ActionAlgorithm.__post_init__(self)
        if not 0 <= self.omega < np.inf:
            raise ConfigError(f"omega={self.omega} must be finite and at least 0.")
        for key, known in (("norm", ("std", "one")), ("total", ("sum", "mean"))):
            if getattr(self, key) not in known:
                raise ConfigError(f"{key}={getattr(self, key)!r} is unknown; choose {' or '.join(known)}.")

    @property
    def sums_rewards(self) -> bool:
        """Whether rewards that repeat the outcome would count it once per turn."""
        return self.total == "sum"

    def advantages(self, actions: Actions) -> Values:
        """See ``ActionAlgorithm.advantages``."""
        add = group_sum if self.total == "sum" else group_mean
        scores = add(actions.rewards, actions.episodes)
        _, first, back = np.unique(actions.episodes, return_index=True, return_inverse=True)
        by_episode = self._compared(scores[first], actions.tasks[first])[back]  # each episode counts once
        return by_episode + self.omega * self._compared(actions.returns, actions.states)

    def _compared(self, values: Values, groups: Labels) -> Values:
        return normalised(values, groups) if self.norm == "std" else values - group_mean(values, groups)
