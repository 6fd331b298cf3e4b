"""What one step of a policy learns from: samples with their advantages, weights and targets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from mappa_rl.algos.aggregation import Shares
from mappa_rl.learner.critic import ValueTargets
from mappa_rl.types import Floats, Sample

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """One policy's samples of a training step, with arrays [T] for each sample.

    Attributes:
        samples: their ``logprobs`` are those of the old policy.
        advantages: the advantage of each token; read only where the weight is not 0.
        weights: the weight of each token, >= 0; 0 on the first token of a sample.
        reference: log-probs under the frozen reference, for an objective with a KL penalty.
        value_targets: what a critic learns from in the same backward pass.
        shares: each token's share of the objective; None: the loss is a mean over tokens by their weights.
    """

    samples: Sequence[Sample]
    advantages: Sequence[Floats]
    weights: Sequence[Floats]
    reference: Sequence[Floats] | None = None
    value_targets: ValueTargets | None = None
    shares: Shares | None = None

    def pick(self, chosen: Sequence[int]) -> Batch:
        """The batch of the chosen samples, in the order of ``chosen``."""
        targets = self.value_targets
        return Batch(
            pick(self.samples, chosen),
            pick(self.advantages, chosen),
            pick(self.weights, chosen),
            None if self.reference is None else pick(self.reference, chosen),
            None if targets is None else targets.pick(chosen),
            None if self.shares is None else self.shares.pick(chosen),
        )


def pick(values: Sequence[_T], chosen: Sequence[int]) -> list[_T]:
    """The chosen values, in the order of ``chosen``."""
    return [values[i] for i in chosen]
