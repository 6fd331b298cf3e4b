"""REINFORCE++ (arXiv 2501.03262) for teams with a reward per action.

With the returns ``G_t`` of ``returns.py``, over all tokens of valid actions of one policy's batch,

    A_t = (G_t - mean) / sqrt(max(var, 1e-8))        with the biased variance.

The two modes of ``G`` can give opposite signs, so compare results only within one mode. An action without a
valid reward has weight 0 and counts in no statistic.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mappa_rl.algos.base import Advantages
from mappa_rl.algos.returns import MIN_VAR, Returns, describe, selected, valid_tokens
from mappa_rl.types import Floats, Sample


@dataclass(frozen=True, slots=True)
class ReinforcePP(Returns):
    """Settings: those of ``Returns``."""

    def token_advantages(
        self, samples: Sequence[Sample], reference: Sequence[Floats] | None = None
    ) -> Advantages:
        """See ``Algorithm.token_advantages``; the stats are those of ``describe``."""
        kl = self.reference_kl(samples, reference)
        returns = self.returns(samples, kl)
        masks = [valid_tokens(sample) for sample in samples]
        advantages = [np.zeros(len(sample), np.float32) for sample in samples]
        valid = selected(returns, masks)
        mean, var = (valid.mean(), valid.var()) if len(valid) else (0.0, 0.0)
        for out, own, mask in zip(advantages, returns, masks, strict=True):
            out[mask] = ((own - mean) / np.sqrt(max(var, MIN_VAR)))[mask]
        stats = describe(samples, valid, kl)
        weights = [mask.astype(np.float32) for mask in masks]
        return Advantages(advantages, weights, stats, [own.astype(np.float32) for own in returns])
