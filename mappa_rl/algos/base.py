"""The interface of an algorithm: rewards in, an advantage per token out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from mappa_rl.types import Floats, Sample, StepStats


@dataclass(frozen=True, slots=True, eq=False)
class Advantages:
    """What one policy learns from in one step.

    Per sample, in order: ``advantages`` [T]; ``weights`` [T] in the loss, 0 on tokens without training;
    ``returns`` [T], what rewards sum to: the targets of a critic, and part of a run's traces; None: unknown.
    ``stats`` are metrics of the whole batch.
    """

    advantages: list[Floats]
    weights: list[Floats]
    stats: StepStats
    returns: list[Floats] | None = None


class Algorithm:
    """Base of all algorithms: a frozen dataclass of settings with the method ``token_advantages``.

    What an algorithm learns from step to step is its ``state``, which goes into checkpoints. All policies of
    a run share one instance, so state is kept per agent.
    """

    __slots__ = ()
    needs_groups: ClassVar[bool] = False
    """Whether the algorithm compares episodes of one task and so needs rollout.group_size above 1."""

    @property
    def sums_rewards(self) -> bool:
        """Whether the algorithm sums rewards over turns itself, so that none may repeat the outcome."""
        return False

    @property
    def needs_reference(self) -> bool:
        """Whether ``token_advantages`` needs the log-probs of the reference model."""
        return False

    def token_advantages(
        self, samples: Sequence[Sample], reference: Sequence[Floats] | None = None
    ) -> Advantages:
        """Compute the advantages of all samples of one policy in one training step.

        Args:
            samples: Samples of one policy, in the order of ``merge_turns``.
            reference: Log-probs [T] of the frozen reference model per sample, in nats.
        """
        raise NotImplementedError(f"{type(self).__name__} must implement token_advantages().")

    def state(self) -> dict[str, Any]:
        """Return the state to keep in a checkpoint, as JSON values."""
        return {}

    def load(self, state: Mapping[str, Any]) -> None:
        """Restore what ``state`` returned."""


class CriticAlgorithm(Algorithm):
    """Base of algorithms with a critic: every policy gets a value head.

    ``vf_coef`` weights the value loss. ``value_clip`` bounds the change of a value per update (0: no bound).
    """

    __slots__ = ()
    vf_coef: float
    value_clip: float

    def token_advantages(
        self,
        samples: Sequence[Sample],
        reference: Sequence[Floats] | None = None,
        values: Sequence[Floats] | None = None,
    ) -> Advantages:
        """Compute advantages and set ``returns``.

        Args:
            samples: As in ``Algorithm.token_advantages``.
            reference: As in ``Algorithm.token_advantages``.
            values: The critic's values [T] of every sample before the update.
        """
        raise NotImplementedError(f"{type(self).__name__} must implement token_advantages().")
