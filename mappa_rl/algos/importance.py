"""Importance weights for a sampler whose log-probs differ from the learner's.

With ``r_t = exp(log pi_learner(t) - log pi_sampler(t))`` before the update, the advantage of token ``t`` is
multiplied by

    tis     clip(r_t, low, high)             truncated importance sampling (arXiv 1802.01561; low 0 there)
    icepop  r_t if low <= r_t <= high else 0 (IcePop, arXiv 2510.18855)

and the learner's log-probs replace the sampler's as the old policy in the loss's ratio and the KL penalty.
A step with one update needs no scoring before it: the update's own forward pass has these log-probs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from mappa_rl.config import Algo, Config
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


def in_the_update(config: Config) -> bool:
    """Whether the update weighs its own tokens: it is the step's only one, and no reward has a penalty."""
    algo, optim = config.algo, config.optim
    alone = optim.epochs * optim.minibatches == 1
    return algo.importance_sampling != "none" and alone and not (algo.kl == "reward" and algo.kl_coef)


def importance(gap: Tensor, algo: Algo) -> tuple[Tensor, Tensor]:
    """The factors of tokens whose log-probs differ by ``gap`` (nats), and whether they are out of bounds."""
    low, high = algo.importance_bounds
    ratio = gap.clamp(-20.0, 20.0).exp()
    outside = (ratio < low) | (ratio > high)
    kept = ratio.clamp(low, high) if algo.importance_sampling == "tis" else ratio.where(~outside, 0.0)
    return kept, outside


def apply_importance_weights(
    samples: Sequence[Sample], learner: _Scorer | None, algo: Algo
) -> ImportanceWeighted:
    """Weight the samples as ``algo.importance_sampling`` says; leave them where there is no ``learner``.

    Stats over action tokens: ``mismatch`` and ``mismatch_max`` (absolute difference of log-probs, nats),
    ``importance_weight`` (mean factor), ``importance_outside_fraction`` (fraction of tokens whose ratio is
    outside ``algo.importance_bounds``).
    """
    if learner is None or algo.importance_sampling == "none" or not samples:
        return ImportanceWeighted(list(samples), None, StepStats())
    old = learner.logprobs(samples)
    factors, gaps, outside = [], [], []
    for sample, own in zip(samples, old, strict=True):
        gap = np.where(sample.action_mask, own.astype(np.float64) - sample.logprobs, 0.0)
        kept, beyond = (found.numpy() for found in importance(torch.from_numpy(gap), algo))
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
