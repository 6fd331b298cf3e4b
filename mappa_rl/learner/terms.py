"""The terms of an update's loss: the policy's objective, the critic's loss, the likelihood of samples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from mappa_rl.algos.aggregation import Shares
from mappa_rl.learner.critic import ValueLoss, ValueTargets
from mappa_rl.learner.forward import Scores
from mappa_rl.learner.losses import Loss, Mass, Objective, Tokens, likelihood_loss
from mappa_rl.learner.packing import pack
from mappa_rl.types import Floats, Ints, PackedBatch, Sample


class Totals(NamedTuple):
    """Sums over a whole minibatch, that is over all micro-batches and processes.

    ``weight`` is that of its tokens, and ``divisor`` is what the shares of the objective are divided by.
    """

    weight: float
    divisor: float


class Term(NamedTuple):
    """One term of an update's loss: ``coef`` times the ``loss`` of these samples.

    ``loss`` gets the scores of a micro-batch, the micro-batch, and the totals of the update.
    ``name`` is the prefix of the names of its stats.
    """

    samples: Sequence[Sample]
    weights: Sequence[Floats]
    loss: Callable[[Scores, PackedBatch, Totals], Loss]
    advantages: Sequence[Floats] | None = None
    coef: float = 1.0
    name: str = ""
    reference: Sequence[Floats] | None = None
    value_targets: ValueTargets | None = None
    shares: Shares | None = None

    def totals(self, chosen: Sequence[int]) -> Totals:
        """Those of the chosen samples alone."""
        weight = sum(float(self.weights[i].sum(dtype=np.float64)) for i in chosen)
        return Totals(weight, weight if self.shares is None else sum(self.shares.pick(chosen).counts))

    def pack(self, chosen: Sequence[int]) -> PackedBatch:
        """One micro-batch of the chosen samples."""

        def of(arrays: Sequence[Floats] | None) -> list[Floats] | None:
            return None if arrays is None else [arrays[i] for i in chosen]

        targets = self.value_targets
        return pack(
            [self.samples[i] for i in chosen],
            [self.weights[i] for i in chosen],
            of(self.advantages),
            of(self.reference),
            *((None, None) if targets is None else (of(targets.values), of(targets.returns))),
            None if self.shares is None else of(self.shares.tokens),
        )


class PolicyLoss:
    """The objective of a micro-batch, plus the critic's loss if there is a critic.

    While ``updated`` is False, it also measures the absolute difference between the learner's log-probs and
    the old policy's: ``mismatch`` is its sum over tokens, ``mismatch_max`` its maximum.
    """

    def __init__(self, objective: Objective, value_loss: ValueLoss | None) -> None:
        self.updated = False
        self.mismatch_max = 0.0
        self._objective, self._value_loss = objective, value_loss

    def __call__(self, scores: Scores, batch: PackedBatch, totals: Totals) -> Loss:
        """The loss of one micro-batch; ``totals`` are those of the whole update."""
        device = scores.logprobs.device
        old, advantages, weights = _tensors(device, batch.logprobs, batch.advantages, batch.weights)
        shares, reference, actions = _tensors(device, batch.shares, batch.reference, batch.actions)
        tokens = Tokens(scores.logprobs, old, advantages, actions)
        mass = Mass(weights, shares, totals.divisor)
        value, sums = self._objective(tokens, mass, reference, scores.entropy)
        if not self.updated:
            difference = (scores.logprobs.detach() - old).abs()
            sums["mismatch"] = (difference * weights).sum()
            self.mismatch_max = max(self.mismatch_max, float((difference * (weights != 0)).max()))
        if self._value_loss is None:
            return Loss(value, sums)
        before, returns = _tensors(device, batch.values, batch.returns)
        assert scores.values is not None
        critic = self._value_loss(scores.values, before, returns, weights, total=totals.weight)
        return Loss(value + critic.value, sums | critic.sums)


def likelihood(scores: Scores, batch: PackedBatch, totals: Totals) -> Loss:
    """The negative log-likelihood of a micro-batch; ``totals`` are those of the whole update."""
    (weights,) = _tensors(scores.logprobs.device, batch.weights)
    return likelihood_loss(scores.logprobs, weights, total=totals.weight)


def _tensors(device: torch.device, *arrays: Floats | Ints) -> list[Tensor]:
    return [torch.from_numpy(array).to(device) for array in arrays]
