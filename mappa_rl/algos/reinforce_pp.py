"""REINFORCE++ (arXiv 2501.03262) for teams that are rewarded action by action.

With the returns ``G_t`` of ``returns.py``, per policy, over all tokens of valid actions of the whole batch,

    A_t = (G_t - mean) / sqrt(max(var, 1e-8))        with the biased variance.

The two modes of ``G`` can differ in sign, so the mode is always explicit. An action without a valid reward
has weight 0 and counts in no statistic.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mappa_rl.algos.base import Credit, register
from mappa_rl.algos.returns import MIN_VAR, Returns, describe, valid_tokens
from mappa_rl.types import Floats, Sample


@register("reinforce_pp")
@dataclass(frozen=True, slots=True)
class ReinforcePP(Returns):
    """Settings: those of ``Returns``."""

    def credit(self, samples: Sequence[Sample], reference: Sequence[Floats] | None = None) -> Credit:
        """See ``Algorithm.credit``; stats as ``describe`` has them, where zero variance means no signal."""
        kl = self.reference_kl(samples, reference)
        returns = self.returns(samples, kl)
        weights = [valid_tokens(sample) for sample in samples]
        advantages = [np.zeros(len(sample), np.float32) for sample in samples]
        stats = {}
        for policy in sorted({sample.policy for sample in samples}):
            own = [i for i, sample in enumerate(samples) if sample.policy == policy]
            values = np.concatenate([returns[i][weights[i]] for i in own])
            mean, var = (values.mean(), values.var()) if len(values) else (0.0, 0.0)
            for i in own:
                centred = (returns[i] - mean) / np.sqrt(max(var, MIN_VAR))
                advantages[i][weights[i]] = centred[weights[i]]
            drift = np.concatenate([kl[i][samples[i].action_mask] for i in own])
            stats[policy] = describe([samples[i] for i in own], values, drift)
        return Credit(advantages, [weight.astype(np.float32) for weight in weights], stats)
