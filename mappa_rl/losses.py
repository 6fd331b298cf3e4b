"""Losses as sums over tokens divided by a count that the caller knows for the whole batch.

Dividing by the global count, and never by a micro-batch's own, makes the gradient independent of how a batch
is cut into micro-batches or dealt over processes.

In all of them, tensors are [M], ``s_t = exp(clamp(logprobs_t - old_t, -20, 20))`` is the probability ratio
and ``total`` the global sum of weights. Sums: ``clip_fraction`` (tokens where the clip binds), ``kl``
(estimate k3 of KL(old | new), never negative), ``difference`` (``|logprobs - old|``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor

_LOG_RATIO = 20.0  # |log ratio| beyond which exp() is cut off, so that one token cannot overflow


class Loss(NamedTuple):
    """``value``: scalar with gradient. ``sums``: sums over tokens by name, without gradient; all weighted."""

    value: Tensor
    sums: dict[str, Tensor]


@dataclass(frozen=True, slots=True)
class Objective:
    """Which loss, with its bounds, and a KL penalty in it.

    ``clip_high`` 0: as ``clip``; ``dual_clip`` 0: none.
    ``kl_coef`` times ``sum_t w_t k_t / total`` is added, with ``x = logprobs_t - reference_t`` and
    k2 ``x^2 / 2``, whose gradient on policy is that of KL(new | reference), as that of k1 in the reward is;
    k3 ``exp(-x) - 1 + x``, whose gradient on policy is that of KL(reference | new) (arXiv 2510.01555).
    """

    loss: Literal["ppo", "gspo", "cispo"] = "ppo"
    clip: float = 0.2
    clip_high: float = 0.0
    dual_clip: float = 0.0
    kl_estimator: Literal["k2", "k3"] = "k2"
    kl_coef: float = 0.0

    def __call__(
        self,
        logprobs: Tensor,
        old: Tensor,
        advantages: Tensor,
        weights: Tensor,
        *,
        total: float,
        actions: Tensor,
        reference: Tensor,
    ) -> Loss:
        """``actions``: equal for tokens of one action. Sums: also ``kl_loss``, nats, with a KL penalty."""
        given, high = (logprobs, old, advantages, weights), self.clip_high or self.clip
        if self.loss == "gspo":
            value, sums = gspo_loss(*given, total=total, clip=self.clip, clip_high=high, actions=actions)
        elif self.loss == "cispo":
            value, sums = cispo_loss(*given, total=total, clip=self.clip, clip_high=high)
        else:
            value, sums = clip_loss(
                *given, total=total, clip=self.clip, clip_high=high, dual_clip=self.dual_clip
            )
        if self.kl_coef:
            away = (logprobs - reference).clamp(-_LOG_RATIO, _LOG_RATIO)
            penalty = away.square() / 2 if self.kl_estimator == "k2" else (-away).exp() - 1 + away
            value = value + self.kl_coef * (penalty * weights).sum() / total
            sums["kl_loss"] = (penalty * weights).sum().detach()
        return Loss(value, sums)


def clip_loss(
    logprobs: Tensor,
    old: Tensor,
    advantages: Tensor,
    weights: Tensor,
    *,
    total: float,
    clip: float,
    clip_high: float = 0.0,
    dual_clip: float = 0.0,
) -> Loss:
    """PPO's clipped surrogate, token by token (arXiv 1707.06347; two sides as in DAPO, arXiv 2503.14476).

    ``loss = -sum_t w_t min(s_t A_t, clip(s_t, 1 - clip, 1 + clip_high) A_t) / total``. With ``dual_clip`` c,
    where ``A_t < 0`` the minimum is at least ``c A_t`` (arXiv 1912.09729).
    """
    change = logprobs - old
    ratio = change.clamp(-_LOG_RATIO, _LOG_RATIO).exp()
    return _surrogate(change, ratio, ratio, advantages, weights, total, clip, clip_high or clip, dual_clip)


def gspo_loss(
    logprobs: Tensor,
    old: Tensor,
    advantages: Tensor,
    weights: Tensor,
    *,
    total: float,
    clip: float,
    clip_high: float,
    actions: Tensor,
) -> Loss:
    """GSPO (arXiv 2507.18071), in its token form: one ratio for all tokens of an action ``y``.

    ``s_y = exp(mean over t in y of (logprobs_t - old_t))`` takes the place of ``s_t`` in the surrogate; the
    gradient reaches token ``t`` through ``sg[s_y] * exp(logprobs_t - sg[logprobs_t])``. As in our other
    losses each token counts the same; the paper lets each sequence count the same. Its clips are 3e-4 / 4e-4.
    """
    change = logprobs - old
    with torch.no_grad():
        size = int(actions.max()) + 1
        count = change.new_zeros(size).index_add_(0, actions, torch.ones_like(change))
        mean = (change.new_zeros(size).index_add_(0, actions, change) / count.clamp(min=1))[actions]
        common = mean.clamp(-_LOG_RATIO, _LOG_RATIO).exp()
        tokens = change.clamp(-_LOG_RATIO, _LOG_RATIO).exp()
    ratio = common * (logprobs - logprobs.detach()).exp()
    return _surrogate(change, ratio, tokens, advantages, weights, total, clip, clip_high, 0.0)


def cispo_loss(
    logprobs: Tensor,
    old: Tensor,
    advantages: Tensor,
    weights: Tensor,
    *,
    total: float,
    clip: float,
    clip_high: float,
) -> Loss:
    """CISPO (arXiv 2506.13585): the weight is clipped, and every token keeps a gradient.

    ``loss = -sum_t w_t sg[clip(s_t, 1 - clip, 1 + clip_high)] A_t logprobs_t / total``.
    """
    change = logprobs - old
    with torch.no_grad():
        ratio = change.clamp(-_LOG_RATIO, _LOG_RATIO).exp()
        kept = ratio.clamp(1 - clip, 1 + clip_high)
        sums = _sums(change, ratio, kept != ratio, weights)
    return Loss(-(kept * advantages * logprobs * weights).sum() / total, sums)


def likelihood_loss(logprobs: Tensor, weights: Tensor, *, total: float) -> Loss:
    """Negative log-likelihood: ``-sum_t w_t logprobs_t / total``."""
    value = -(logprobs * weights).sum() / total
    return Loss(value, {})


def _surrogate(
    change: Tensor,
    ratio: Tensor,
    tokens: Tensor,
    advantages: Tensor,
    weights: Tensor,
    total: float,
    clip: float,
    clip_high: float,
    dual_clip: float,
) -> Loss:
    """``ratio`` is clipped; ``tokens`` are the ratios token by token, for statistics."""
    free, bound = ratio * advantages, ratio.clamp(1 - clip, 1 + clip_high) * advantages
    gain = torch.minimum(free, bound)
    cut = bound < free
    if dual_clip:
        floor = torch.where(advantages < 0, dual_clip * advantages, gain.detach())
        cut = cut | (floor > gain)
        gain = torch.where(floor > gain, floor, gain)
    value = -(gain * weights).sum() / total
    with torch.no_grad():
        return Loss(value, _sums(change, tokens, cut, weights))


def _sums(change: Tensor, ratio: Tensor, cut: Tensor, weights: Tensor) -> dict[str, Tensor]:
    return {
        "clip_fraction": (cut * weights).sum(),
        "kl": ((ratio - 1 - change) * weights).sum(),
        "difference": (change.abs() * weights).sum(),
    }
