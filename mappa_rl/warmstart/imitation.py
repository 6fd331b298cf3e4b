"""Supervised warm start: imitate demonstrated actions, before rewards take over."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

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
    weights: Sequence[Floats] | None = None,
    seed: int = 0,
    on_step: Callable[[int, StepStats], None] | None = None,
) -> None:
    """Train ``learner`` until it has made ``steps`` updates on batches of ``batch`` samples.

    ``weights``: one array [T] per sample, as ``token_weights`` makes them (the default, with 0.1). Starts
    where ``learner.updates`` stands, and batches depend on (seed, step) alone: a learner restored from a
    checkpoint goes on exactly. Every sample is seen once before any is seen again. ``on_step`` gets the
    number of updates done and the stats of ``Learner.supervised``; it may save a checkpoint.
    """
    if not samples:
        raise LearnerError("There are no demonstrations to imitate; make some, or set the steps to 0.")
    if weights is None:
        weights = [token_weights(sample, 0.1) for sample in samples]
    order, epoch = np.empty(0, np.int64), -1
    for step in range(learner.updates, steps):
        chosen: list[int] = []
        for position in range(step * batch, (step + 1) * batch):
            if position // len(samples) != epoch:
                epoch = position // len(samples)
                order = np.random.default_rng((seed, epoch)).permutation(len(samples))
            chosen.append(order[position % len(samples)])
        stats = learner.supervised([samples[i] for i in chosen], [weights[i] for i in chosen])
        if on_step is not None:
            on_step(step + 1, stats)


def token_weights(
    sample: Sample, prompt_weight: float, actions: Mapping[int, Sequence[float]] | None = None
) -> Floats:
    """[T]: ``prompt_weight`` on the context, 0 on the first token (not predicted), 1 on action tokens.

    ``actions``: step in the episode -> weights of that action's tokens, in place of the ones.
    """
    weights = np.where(sample.action_mask, 1.0, prompt_weight).astype(np.float32)
    for span in sample.spans:
        if actions is not None and span.step in actions:
            weights[span.start : span.end] = actions[span.step]
    weights[0] = 0.0
    return weights
