"""From one loss per token to the loss of a minibatch: each token's share, and what the sum is divided by.

With the losses ``l_t`` and weights ``w_t`` of the tokens, over the A actions ``a`` of a minibatch that have a
weight,

    token     sum_t w_t l_t / sum_t w_t                              (DAPO, arXiv 2503.14476)
    sequence  1/A sum_a (sum_{t in a} w_t l_t / sum_{t in a} w_t)    (GRPO, arXiv 2402.03300; GSPO)
    constant  1/A sum_a (sum_{t in a} w_t l_t / C)                   (Dr. GRPO, arXiv 2503.20783)

where C is ``rollout.max_new_tokens``. A sequence is an action: what one prompt was answered with. The shares
of a token and the counts of a sample depend on no other sample, so sums over micro-batches and processes are
exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from mappa_rl.types import Floats, Sample


@dataclass(frozen=True, slots=True, eq=False)
class Shares:
    """The loss of samples is ``sum_t tokens_t l_t / sum counts``: ``tokens`` [T] and a count per sample."""

    tokens: Sequence[Floats]
    counts: Sequence[float]

    def pick(self, chosen: Sequence[int]) -> Shares:
        """The shares of the chosen samples, in the order of ``chosen``."""
        return Shares([self.tokens[i] for i in chosen], [self.counts[i] for i in chosen])


def shares_of(
    aggregation: Literal["token", "sequence", "constant"],
    samples: Sequence[Sample],
    weights: Sequence[Floats],
    length: int,
) -> Shares | None:
    """The shares of samples whose tokens have these weights [T] (>= 0, 0 outside actions).

    None for ``token``: the weights are the shares. ``length``: C, in tokens, which only ``constant`` uses.
    """
    if aggregation == "token":
        return None
    tokens, counts = [], []
    for sample, own in zip(samples, weights, strict=True):
        shares, count = np.zeros(len(sample), np.float32), 0
        for span in sample.spans:
            part = slice(span.start, span.end)
            total = float(own[part].sum(dtype=np.float64))
            if total > 0:
                count += 1
                shares[part] = own[part] / (total if aggregation == "sequence" else length)
        tokens.append(shares)
        counts.append(float(count))
    return Shares(tokens, counts)
