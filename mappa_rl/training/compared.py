"""Whether a run compares its policies with their start."""

from __future__ import annotations

from mappa_rl.algos.from_config import algorithm_of
from mappa_rl.config import Config
from mappa_rl.learner.losses import Objective


def compares(config: Config) -> bool:
    """Whether rewards or the loss need log-probs of the policies as they began."""
    return algorithm_of(config).needs_reference or Objective(config.algo).kl_coef > 0
