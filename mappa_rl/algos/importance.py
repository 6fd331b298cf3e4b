"""Importance weights for a sampler whose log-probs differ from the learner's.

With ``r_t = exp(log pi_learner(t) - log pi_sampler(t))`` before the update, the advantage of token ``t`` is
multiplied by

    tis     clip(r_t, low, high)             truncated importance sampling (arXiv 1802.01561; low 0 there)
    icepop  r_t if low <= r_t <= high else 0 (IcePop, arXiv 2510.18855)

and the learner's log-probs replace the sampler's as the old policy in the loss's ratio and the KL penalty.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from mappa_rl.config import Algo
from mappa_rl.types import Floats, Sample, StepStats


class _Scorer(Protocol):
    def logprobs(self, samples: Sequence[Sample]) -> list[Floats]: ...


@dataclass(frozen=True, slots=True, eq=False)
class ImportanceWeighted:
    """``samples`` with the old policy's log-probs; ``factors`` [T] on advantages (None: 1 everywhere)."""

    samples: list[Sample]
    factors: list[Floats] | None
    stats: StepStats

    def weigh(self, advantages: Sequence[Floats]) -> list[Floats]:
        """Multiply advantages [T] by the factors.

        Every built-in loss is linear in a positive factor of its advantage, so this weights the tokens.
        """
        if self.factors is None:
            return list(advantages)
        return [a * factor for a, factor in zip(advantages, self.factors, strict=True)]


def apply_importance_weights(samples: Sequence[Sample], learner: _Scorer, algo: Algo) -> ImportanceWeighted:
    """Weight the samples as ``algo.importance_sampling`` says.

    Stats over action tokens: ``mismatch`` and ``mismatch_max`` (absolute difference of log-probs, nats),
    ``importance_weight`` (mean factor), ``importance_outside_fraction`` (fraction of tokens whose ratio is
    outside ``algo.importance_bounds``).
    """
    if algo.importance_sampling == "none" or not samples:
        return ImportanceWeighted(list(samples), None, StepStats())
    old = learner.logprobs(samples)
    low, high = algo.importance_bounds
    factors, gaps, outside = [], [], []
    for sample, own in zip(samples, old, strict=True):
        gap = np.where(sample.action_mask, own.astype(np.float64) - sample.logprobs, 0.0)
        ratio = np.exp(np.clip(gap, -20.0, 20.0))
        beyond = (ratio < low) | (ratio > high)
        kept = (
            np.clip(ratio, low, high) if algo.importance_sampling == "tis" else np.where(beyond, 0.0, ratio)
        )
        factors.append(kept.astype(np.float32))
        gaps.append(np.abs(gap[sample.action_mask]))
        outside.append(beyond[sample.action_mask])
    used = np.concatenate([f[s.action_mask] for f, s in zip(factors, samples, strict=True)])
    away = np.concatenate(gaps)
    stats = StepStats(
        mismatch=float(away.mean()),
        mismatch_max=float(away.max()),
        importance_weight=float(used.mean()),
        importance_outside_fraction=float(np.concatenate(outside).mean()),
    )
    replaced = [dataclasses.replace(s, logprobs=own) for s, own in zip(samples, old, strict=True)]
    return ImportanceWeighted(replaced, factors, stats)
