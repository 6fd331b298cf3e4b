"""Losses as sums over tokens divided by a count that the caller knows for the whole batch.

Dividing by the global count, and never by a micro-batch's own, makes the gradient independent of how a batch
is cut into micro-batches or dealt over processes.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

_LOG_RATIO = 20.0  # |log ratio| beyond which exp() is cut off, so that one token cannot overflow


class Loss(NamedTuple):
    """``value``: scalar with gradient. ``sums``: sums over tokens by name, without gradient; all weighted."""

    value: Tensor
    sums: dict[str, Tensor]


def clip_loss(
    logprobs: Tensor, old: Tensor, advantages: Tensor, weights: Tensor, *, total: float, clip: float
) -> Loss:
    """PPO's clipped surrogate, token by token; all tensors are [M].

    ``loss = -sum_t w_t min(s_t A_t, clip(s_t, 1 - clip, 1 + clip) A_t) / total`` with the probability ratio
    ``s_t = exp(clamp(logprobs_t - old_t, -20, 20))``. ``total`` is the global sum of weights. Sums:
    ``clip_fraction`` (tokens where the clip binds), ``kl`` (estimate k3 of KL(old | new), never negative),
    ``difference`` (``|logprobs - old|``).
    """
    change = logprobs - old
    ratio = change.clamp(-_LOG_RATIO, _LOG_RATIO).exp()
    free, bound = ratio * advantages, ratio.clamp(1 - clip, 1 + clip) * advantages
    value = -(torch.minimum(free, bound) * weights).sum() / total
    with torch.no_grad():
        sums = {
            "clip_fraction": ((bound < free) * weights).sum(),
            "kl": ((ratio - 1 - change) * weights).sum(),
            "difference": (change.abs() * weights).sum(),
        }
    return Loss(value, sums)


def likelihood_loss(logprobs: Tensor, weights: Tensor, *, total: float) -> Loss:
    """Negative log-likelihood: ``-sum_t w_t logprobs_t / total``."""
    value = -(logprobs * weights).sum() / total
    return Loss(value, {})
