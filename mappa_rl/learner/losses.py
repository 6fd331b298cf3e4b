"""Losses by name: one number per token, summed with the shares of the tokens.

The ``Objective`` divides the sum by the total of the whole minibatch, which the caller passes. It never
divides by anything of a micro-batch, so the gradient does not depend on how a batch is split into
micro-batches or over processes. ``mappa_rl.algos.aggregation`` makes the shares.

In all losses, ``s_t = exp(clamp(logprobs_t - old_t, -20, 20))`` is the probability ratio.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from mappa_env import plugins
from mappa_rl.algos.choice import declared, make
from mappa_rl.algos.importance import importance
from mappa_rl.config import Algo

_LOG_RATIO = 20.0  # bound on |log ratio|, so that no token overflows exp()


class Loss(NamedTuple):
    """``value``: scalar with gradient. ``sums``: weighted sums over tokens by name, without gradient."""

    value: Tensor
    sums: dict[str, Tensor]


@dataclass(frozen=True, slots=True, eq=False)
class Tokens:
    """The M scored tokens of a micro-batch, tensors [M]; only ``logprobs`` has a gradient.

    ``logprobs`` and ``old``: natural logarithms under the policy in training and under the old policy;
    ``advantages``; ``actions``: index of the token's action, from 0.
    """

    logprobs: Tensor
    old: Tensor
    advantages: Tensor
    actions: Tensor

    @property
    def change(self) -> Tensor:
        """``logprobs - old``, in nats."""
        return self.logprobs - self.old

    @property
    def ratio(self) -> Tensor:
        """The probability ratio of each token."""
        return self.change.clamp(-_LOG_RATIO, _LOG_RATIO).exp()


@dataclass(frozen=True, slots=True, eq=False)
class Mass:
    """How much each of the M tokens counts.

    ``weights`` [M]: in stats, 0 on tokens that are not trained on. ``shares`` [M]: in the loss, of which
    ``total`` is the divisor for the whole minibatch, over all micro-batches and processes.
    """

    weights: Tensor
    shares: Tensor
    total: float

    def mean(self, values: Tensor) -> Tensor:
        """This micro-batch's part of the minibatch's mean of ``values`` [M]."""
        return (values * self.shares).sum() / self.total


class TokenLoss(NamedTuple):
    """``values`` [M] with gradient, to be minimised; ``clipped`` [M]: whether a clip binds (for stats)."""

    values: Tensor
    clipped: Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Clipped:
    """Base of losses with the clip range [1 - clip_low, 1 + clip_high].

    ``clip_high`` None: the same as ``clip_low``.
    """

    clip_low: float
    clip_high: float | None = None

    def clamp(self, ratio: Tensor) -> Tensor:
        """``ratio`` within the clip range."""
        high = self.clip_low if self.clip_high is None else self.clip_high
        return ratio.clamp(1 - self.clip_low, 1 + high)


@dataclass(frozen=True, slots=True, kw_only=True)
class PPO(Clipped):
    """PPO's clipped surrogate (arXiv 1707.06347; separate clip bounds as in DAPO, arXiv 2503.14476).

    ``loss_t = -min(s_t A_t, clip(s_t, 1 - clip_low, 1 + clip_high) A_t)``. With ``dual_clip`` c above 0, the
    minimum is at least ``c A_t`` if ``A_t < 0`` (arXiv 1912.09729).
    """

    dual_clip: float

    def __call__(self, tokens: Tokens) -> TokenLoss:
        """One value per token."""
        ratio, advantages = tokens.ratio, tokens.advantages
        free, bound = ratio * advantages, self.clamp(ratio) * advantages
        gain = torch.minimum(free, bound)
        cut = bound < free
        if self.dual_clip:
            floor = torch.where(advantages < 0, self.dual_clip * advantages, gain.detach())
            cut = cut | (floor > gain)
            gain = torch.where(floor > gain, floor, gain)
        return TokenLoss(-gain, cut)


@dataclass(frozen=True, slots=True, kw_only=True)
class GSPO(Clipped):
    """GSPO (arXiv 2507.18071), in its token form: one ratio for all tokens of an action ``y``.

    ``s_y = exp(mean over t in y of (logprobs_t - old_t))`` replaces ``s_t`` in PPO's surrogate; the gradient
    reaches token ``t`` through ``sg[s_y] * exp(logprobs_t - sg[logprobs_t])``. In the paper every sequence
    has the same weight: ``algo.aggregation=sequence``.
    """

    def __call__(self, tokens: Tokens) -> TokenLoss:
        """One value per token."""
        with torch.no_grad():
            change, actions = tokens.change, tokens.actions
            size = int(actions.max()) + 1
            count = change.new_zeros(size).index_add_(0, actions, torch.ones_like(change))
            mean = (change.new_zeros(size).index_add_(0, actions, change) / count.clamp(min=1))[actions]
            common = mean.clamp(-_LOG_RATIO, _LOG_RATIO).exp()
        ratio = common * (tokens.logprobs - tokens.logprobs.detach()).exp()
        free, bound = ratio * tokens.advantages, self.clamp(ratio) * tokens.advantages
        return TokenLoss(-torch.minimum(free, bound), bound < free)


@dataclass(frozen=True, slots=True, kw_only=True)
class CISPO(Clipped):
    """CISPO (arXiv 2506.13585): the weight is clipped, and every token keeps a gradient.

    ``loss_t = -sg[clip(s_t, 1 - clip_low, 1 + clip_high)] A_t logprobs_t``.
    """

    def __call__(self, tokens: Tokens) -> TokenLoss:
        """One value per token."""
        with torch.no_grad():
            ratio = tokens.ratio
            kept = self.clamp(ratio)
        return TokenLoss(-(kept * tokens.advantages * tokens.logprobs), kept != ratio)


LOSSES = plugins.Kind(
    name="loss",
    option="algo.loss",
    group="mappa.losses",
    builtin={name: f"{__name__}:{name.upper()}" for name in ("ppo", "gspo", "cispo")},
    methods={"__call__": (1, ())},
    advice="Write a class with __call__(self, tokens) that returns a TokenLoss; see docs/extending.md.",
)
KEYS = ("clip_low", "clip_high", "dual_clip")
"""Keys of the ``algo`` section that a loss may declare as settings."""


@dataclass(frozen=True)
class Objective:
    """The loss that the ``algo`` section names, plus a KL penalty, minus an entropy bonus.

    The bonus is ``entropy_coef`` times the mean entropy of the policy before each token (A3C, arXiv
    1602.01783). The penalty is ``kl_coef`` times the mean of ``k_t``, with ``x = logprobs_t - reference_t``
    and one of k2 ``x^2 / 2``: on policy its gradient is that of KL(new | reference), like that of k1 in the
    reward; k3 ``exp(-x) - 1 + x``: on policy its gradient is that of KL(reference | new) (arXiv 2510.01555).

    ``weighs``: in the only update of a step, take the learner's own log-probs as the old policy's, and
    multiply advantages by the importance weights (``mappa_rl.algos.importance``).
    """

    algo: Algo
    weighs: bool = False
    token_loss: Callable[[Tokens], TokenLoss] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Raise ConfigError for an unknown loss, or for settings that it does not take."""
        algo = self.algo
        settings = declared(LOSSES, algo.loss, KEYS, algo, algo.loss_options)
        object.__setattr__(self, "token_loss", make(LOSSES, algo.loss, settings))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by name: a class from a user's file cannot be pickled for other processes."""
        return Objective, (self.algo, self.weighs)

    @property
    def kl_coef(self) -> float:
        """Weight of the KL penalty in the loss; 0 where the reward has it."""
        return 0.0 if self.algo.kl == "reward" else self.algo.kl_coef

    def __call__(self, tokens: Tokens, mass: Mass, reference: Tensor, entropy: Tensor) -> Loss:
        """The loss of these tokens, a part of the minibatch's.

        Args:
            tokens: Tensors [M].
            mass: How much each token counts.
            reference: [M], log-probs under the frozen reference; used only with a KL penalty.
            entropy: [M], of the policy before each token, in nats, with gradient.

        Returns:
            Sums over tokens by weight: ``clip_fraction`` (tokens where the clip binds), ``kl`` (estimate k3
            of KL(old | new) in nats, never negative), ``entropy``, and with a KL penalty ``kl_loss`` (nats).
            If it weighs, ``importance_weight`` and ``importance_outside_fraction``.
        """
        weighing = {}
        if self.weighs:
            own = tokens.logprobs.detach()
            factor, outside = importance(own - tokens.old, self.algo)
            tokens = replace(tokens, old=own, advantages=tokens.advantages * factor)
            weighing["importance_weight"] = (factor * mass.weights).sum()
            weighing["importance_outside_fraction"] = (outside * mass.weights).sum()
        values, clipped = self.token_loss(tokens)
        value, weights = mass.mean(values), mass.weights
        with torch.no_grad():
            change, ratio = tokens.change, tokens.ratio
            sums = {
                "clip_fraction": (clipped * weights).sum(),
                "kl": ((ratio - 1 - change) * weights).sum(),
                "entropy": (entropy * weights).sum(),
                **weighing,
            }
        if self.algo.entropy_coef:
            value = value - self.algo.entropy_coef * mass.mean(entropy)
        if self.kl_coef:
            away = (tokens.logprobs - reference).clamp(-_LOG_RATIO, _LOG_RATIO)
            penalty = away.square() / 2 if self.algo.kl == "loss_k2" else (-away).exp() - 1 + away
            value = value + self.kl_coef * mass.mean(penalty)
            sums["kl_loss"] = (penalty * weights).sum().detach()
        return Loss(value, sums)


def likelihood_loss(logprobs: Tensor, weights: Tensor, *, total: float) -> Loss:
    """Negative log-likelihood: ``-sum_t weights_t logprobs_t / total``."""
    value = -(logprobs * weights).sum() / total
    return Loss(value, {})
