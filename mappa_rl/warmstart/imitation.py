"""Supervised warm start: imitate demonstrated actions, before reinforcement learning."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from mappa_rl.config import WarmStart
from mappa_rl.errors import LearnerError
from mappa_rl.learner.learner import Learner
from mappa_rl.types import Floats, Sample, StepStats


def imitate(
    learner: Learner,
    samples: Sequence[Sample],
    weights: Sequence[Floats],
    start: WarmStart,
    *,
    seed: int,
    on_step: Callable[[int, StepStats], None] | None = None,
    enough: Callable[[int], bool] | None = None,
) -> None:
    """Train ``learner`` up to ``start.steps`` updates, on ``start.batch_size`` samples each.

    ``weights``: one array [T] per sample, as ``token_weights`` makes them. Training starts at
    ``learner.updates``, and batches depend on (seed, step) alone, so a learner restored from a checkpoint
    continues exactly. Every sample is seen once before any is seen again. ``on_step`` gets the number of
    updates done and the stats of ``Learner.supervised``; it may save a checkpoint. ``enough`` gets the number
    of updates done after every ``start.check_every``, and ends training with True; for a restored learner it
    may get the same number again.

    Raises LearnerError if ``samples`` is empty.
    """
    if not samples:
        raise LearnerError(
            "There are no demonstrations to imitate: raise warmstart.episodes, or set warmstart.steps=0."
        )

    def is_enough(step: int) -> bool:
        return enough is not None and step > 0 and step % start.check_every == 0 and enough(step)

    if is_enough(learner.updates):
        return
    batch = start.batch_size
    order, epoch = np.empty(0, np.int64), -1
    for step in range(learner.updates, start.steps):
        chosen: list[int] = []
        for position in range(step * batch, (step + 1) * batch):
            if position // len(samples) != epoch:
                epoch = position // len(samples)
                order = np.random.default_rng((seed, epoch)).permutation(len(samples))
            chosen.append(order[position % len(samples)])
        stats = learner.supervised([samples[i] for i in chosen], [weights[i] for i in chosen])
        if on_step is not None:
            on_step(step + 1, stats)
        if is_enough(step + 1):
            return


def token_weights(
    sample: Sample, prompt_weight: float, actions: Mapping[int, Sequence[float]] | None = None
) -> Floats:
    """Weights [T]: ``prompt_weight`` on the context, 0 on the first token (not predicted), 1 on actions.

    ``actions``: step in the episode -> weights of that action's tokens, in place of 1.
    """
    weights = np.where(sample.action_mask, 1.0, prompt_weight).astype(np.float32)
    for span in sample.spans:
        if actions is not None and span.step in actions:
            weights[span.start : span.end] = actions[span.step]
    weights[0] = 0.0
    return weights
