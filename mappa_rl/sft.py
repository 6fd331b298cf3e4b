"""Supervised warm start: imitate demonstrated actions, before rewards take over."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from mappa_rl.errors import LearnerError
from mappa_rl.learner import Learner
from mappa_rl.types import Floats, Sample, StepStats


def imitate(
    learner: Learner,
    samples: Sequence[Sample],
    *,
    steps: int,
    batch: int,
    prompt_weight: float = 0.1,
    seed: int = 0,
    on_step: Callable[[int, StepStats], None] | None = None,
) -> None:
    """Train ``learner`` until it has made ``steps`` updates on batches of ``batch`` samples.

    Starts where ``learner.updates`` stands, and batches depend on (seed, step) alone: a learner restored from
    a checkpoint goes on exactly. Every sample is seen once before any is seen again. ``on_step`` gets the
    number of updates done and the stats of ``Learner.supervised``; it may save a checkpoint.
    """
    if not samples:
        raise LearnerError("There are no demonstrations to imitate; make some, or set the steps to 0.")
    order, epoch = np.empty(0, np.int64), -1
    for step in range(learner.updates, steps):
        chosen = []
        for position in range(step * batch, (step + 1) * batch):
            if position // len(samples) != epoch:
                epoch = position // len(samples)
                order = np.random.default_rng((seed, epoch)).permutation(len(samples))
            chosen.append(samples[order[position % len(samples)]])
        stats = learner.supervised(chosen, [token_weights(sample, prompt_weight) for sample in chosen])
        if on_step is not None:
            on_step(step + 1, stats)


def token_weights(sample: Sample, prompt_weight: float) -> Floats:
    """[T]: 1 on action tokens, ``prompt_weight`` on the context, 0 on the first token (not predicted)."""
    weights = np.where(sample.action_mask, 1.0, prompt_weight).astype(np.float32)
    weights[0] = 0.0
    return weights
