"""REINFORCE with a running baseline per agent (role-conditioned advantages, arXiv 2506.24119).

With ``G_a`` the return of an action (``returns.py``) and ``b`` its agent's baseline,

    A_a = G_a - b;    afterwards    b <- decay * b + (1 - decay) * mean of the agent's G in this step

The mean of the first step is the first baseline. Later, ``b`` comes only from earlier steps, so it is
independent of the actions that it is compared with, and one episode per task is enough.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mappa_rl.algos.actions import ActionAlgorithm, Actions, Values
from mappa_rl.errors import ConfigError


@dataclass(frozen=True, slots=True)
class EMA(ActionAlgorithm):
    """Settings: those of ``Returns``, and ``decay``, the weight of the old baseline, in [0, 1)."""

    decay: float = 0.95
    _baselines: dict[str, float] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        ActionAlgorithm.__post_init__(self)
        if not 0 <= self.decay < 1:
            raise ConfigError(f"decay={self.decay} must be at least 0 and below 1.")

    def advantages(self, actions: Actions) -> Values:
        """See ``ActionAlgorithm.advantages``."""
        out, agents = np.zeros(len(actions.agents)), np.array(actions.agents)
        for agent in sorted(set(actions.agents)):
            mine = actions.returns[agents == agent]
            old = self._baselines.get(agent, float(mine.mean()))
            out[agents == agent] = mine - old
            self._baselines[agent] = self.decay * old + (1 - self.decay) * float(mine.mean())
        return out

    def state(self) -> dict[str, Any]:
        """Return the baseline of every agent."""
        return dict(self._baselines)

    def load(self, state: Mapping[str, Any]) -> None:
        """Restore the baselines."""
        self._baselines.clear()
        self._baselines.update(state)
