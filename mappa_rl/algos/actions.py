"""Algorithms that give every action one advantage.

The advantage of token ``t`` in action ``a`` is ``A_a + (G_t - G'_t)``: the advantage of the action plus the
KL penalty in the return (``returns.py``; ``G'`` is ``G`` with beta 0). No baseline and no division changes
the penalty.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

from mappa_rl.algos.base import Advantages
from mappa_rl.algos.returns import Returns, describe, selected, valid_tokens
from mappa_rl.errors import ConfigError
from mappa_rl.types import Floats, Sample, Span

Values = NDArray[np.float64]
Labels = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Actions:
    """The K valid actions of one policy's batch, as arrays [K].

    ``rewards`` are scaled and clipped; ``returns`` add those of the agent's later actions in the mode
    ``return_to_go``; both are without the KL penalty. ``lengths`` count tokens. Two actions have equal labels
    in ``tasks`` if they share agent and task, in ``states`` if also the tokens that the agent saw before them
    are the same, and in ``episodes`` if they share agent and episode. ``agents`` are names.
    """

    rewards: Values
    returns: Values
    lengths: Values
    tasks: Labels
    states: Labels
    episodes: Labels
    agents: list[str]


@dataclass(frozen=True, slots=True)
class ActionAlgorithm(Returns):
    """Base of algorithms that implement ``advantages``. Settings: those of ``Returns`` and your own."""

    def advantages(self, actions: Actions) -> Values:
        """Return ``A`` [K], one advantage per action. Called once per policy and training step."""
        raise NotImplementedError(f"{type(self).__name__} must implement advantages().")

    def token_advantages(
        self, samples: Sequence[Sample], reference: Sequence[Floats] | None = None
    ) -> Advantages:
        """See ``Algorithm.token_advantages``; the stats are those of ``describe``."""
        kl = self.reference_kl(samples, reference)
        returns = self.returns(samples, kl)
        plain = self.returns(samples, [np.zeros(len(sample)) for sample in samples])
        masks = [valid_tokens(sample) for sample in samples]
        advantages = [np.zeros(len(sample), np.float32) for sample in samples]
        where = [(i, span) for i, sample in enumerate(samples) for span in sample.spans if span.valid]
        if where:
            found = self._checked(self.advantages(self._table(samples, plain, where)), len(where))
            for (i, span), advantage in zip(where, found, strict=True):
                part = slice(span.start, span.end)
                advantages[i][part] = advantage + (returns[i][part] - plain[i][part])
        stats = describe(samples, selected(returns, masks), kl)
        weights = [mask.astype(np.float32) for mask in masks]
        return Advantages(advantages, weights, stats, [own.astype(np.float32) for own in returns])

    def _checked(self, found: Values, count: int) -> Values:
        """Return ``found`` if it is one finite number per action; raise ConfigError otherwise."""
        name = f"{type(self).__name__}.advantages()"
        if np.shape(found) != (count,):
            raise ConfigError(
                f"{name} must return one number per action, shape {(count,)}, not shape {np.shape(found)}."
            )
        if not np.isfinite(found).all():
            raise ConfigError(f"{name} must return finite numbers, not {np.asarray(found)[:8]}.")
        return found

    def _table(
        self, samples: Sequence[Sample], returns: Sequence[Values], where: Sequence[tuple[int, Span]]
    ) -> Actions:
        spans, owners = [span for _, span in where], [samples[i] for i, _ in where]
        return Actions(
            rewards=np.array([self.scaled(span.reward) for span in spans]),
            returns=np.array([returns[i][span.start] for i, span in where]),
            lengths=np.array([float(span.end - span.start) for span in spans]),
            tasks=labels((own.group, own.agent) for own in owners),
            states=labels(
                (own.group, own.agent, sha256(own.ids[: span.start].tobytes()).digest())
                for own, span in zip(owners, spans, strict=True)
            ),
            episodes=labels((own.episode, own.agent) for own in owners),
            agents=[own.agent for own in owners],
        )


def labels(keys: Iterable[Hashable]) -> Labels:
    """Number the keys from 0, equal keys alike."""
    known: dict[Hashable, int] = {}
    return np.array([known.setdefault(key, len(known)) for key in keys], np.int64)


def group_sum(values: Values, groups: Labels) -> Values:
    """Return [K]: for every entry, the sum over its group."""
    return np.bincount(groups, weights=values)[groups].astype(np.float64)


def group_mean(values: Values, groups: Labels) -> Values:
    """Return [K]: for every entry, the mean of its group."""
    return group_sum(values, groups) / group_sum(np.ones(len(values)), groups)


def normalised(values: Values, groups: Labels) -> Values:
    """Subtract each group's mean and divide by its biased standard deviation plus 1e-6."""
    centred = values - group_mean(values, groups)
    return centred / (np.sqrt(group_mean(centred**2, groups)) + 1e-6)
