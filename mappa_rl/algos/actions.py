"""Algorithms that say what each action is worth: they see a table of actions, and write numbers beside it.

The advantage of token ``t`` in action ``a`` is ``A_a + (G_t - G'_t)``: the algorithm's number for the action,
and the KL penalty as it stands in the return (``returns.py``; ``G'`` is ``G`` with beta 0), which no baseline
and no division touches.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mappa_rl.algos.base import Credit
from mappa_rl.algos.returns import Returns, describe, valid_tokens
from mappa_rl.types import Floats, Sample, Span

Values = NDArray[np.float64]
Labels = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Actions:
    """The K valid actions of one policy's batch, arrays [K].

    ``rewards``: scaled and clipped; ``returns``: with those of later actions, if the mode says so; both
    without the KL penalty. ``lengths`` in tokens. Equal labels: ``tasks``, the same agent on the same task;
    ``strata``, the same task, role and turn; ``episodes``, the same agent in the same episode; ``agents``.
    """

    rewards: Values
    returns: Values
    lengths: Values
    tasks: Labels
    strata: Labels
    episodes: Labels
    agents: list[str]


@dataclass(frozen=True, slots=True)
class ActionAlgorithm(Returns):
    """Write ``advantages``; settings are those of ``Returns`` and your own."""

    def advantages(self, actions: Actions) -> Values:
        """``A`` [K] of every action. Called once per policy and training step."""
        raise NotImplementedError(f"{type(self).__name__} has to say what actions are worth: advantages().")

    def credit(self, samples: Sequence[Sample], reference: Sequence[Floats] | None = None) -> Credit:
        """See ``Algorithm.credit``; stats as ``describe`` has them."""
        kl = self.reference_kl(samples, reference)
        returns = self.returns(samples, kl)
        plain = self.returns(samples, [np.zeros(len(sample)) for sample in samples])
        masks = [valid_tokens(sample) for sample in samples]
        advantages = [np.zeros(len(sample), np.float32) for sample in samples]
        stats = {}
        for policy in sorted({sample.policy for sample in samples}):
            own = [i for i, sample in enumerate(samples) if sample.policy == policy]
            where = [(i, span) for i in own for span in samples[i].spans if span.valid]
            if where:
                worth = self.advantages(self._table(samples, plain, where))
                for (i, span), value in zip(where, worth, strict=True):
                    part = slice(span.start, span.end)
                    advantages[i][part] = value + (returns[i][part] - plain[i][part])
            values = np.concatenate([returns[i][masks[i]] for i in own])
            drift = np.concatenate([kl[i][samples[i].action_mask] for i in own])
            stats[policy] = describe([samples[i] for i in own], values, drift)
        return Credit(advantages, [mask.astype(np.float32) for mask in masks], stats)

    def _table(
        self, samples: Sequence[Sample], returns: Sequence[Values], where: Sequence[tuple[int, Span]]
    ) -> Actions:
        spans, owners = [span for _, span in where], [samples[i] for i, _ in where]
        return Actions(
            rewards=np.array([self.paid(span.reward) for span in spans]),
            returns=np.array([returns[i][span.start] for i, span in where]),
            lengths=np.array([float(span.end - span.start) for span in spans]),
            tasks=labels((own.group, own.agent) for own in owners),
            strata=labels((own.group, span.stratum) for own, span in zip(owners, spans, strict=True)),
            episodes=labels((own.episode, own.agent) for own in owners),
            agents=[own.agent for own in owners],
        )


def labels(keys: Iterable[Hashable]) -> Labels:
    """Equal numbers, from 0 on, for equal keys."""
    known: dict[Hashable, int] = {}
    return np.array([known.setdefault(key, len(known)) for key in keys], np.int64)


def group_sum(values: Values, groups: Labels) -> Values:
    """[K]: for every entry, the sum over its group."""
    return np.bincount(groups, weights=values)[groups].astype(np.float64)


def group_mean(values: Values, groups: Labels) -> Values:
    """[K]: for every entry, the mean of its group."""
    return group_sum(values, groups) / group_sum(np.ones(len(values)), groups)


def normalised(values: Values, groups: Labels) -> Values:
    """[K]: less the group's mean, divided by its biased standard deviation plus 1e-6; 0 in flat groups."""
    centred = values - group_mean(values, groups)
    return centred / (np.sqrt(group_mean(centred**2, groups)) + 1e-6)
