"""Supervised steps: a model learns to say what demonstrations say. The start of every tiny policy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from torch import nn

from mappa_rl.config import WarmStart
from mappa_rl.learner import Learner
from mappa_rl.schedule import Schedule
from mappa_rl.types import Floats, Sample


def supervise(
    model: nn.Module,
    samples: Sequence[Sample],
    settings: WarmStart,
    *,
    seed: int,
    on_step: Callable[[int, Mapping[str, float]], None] | None = None,
) -> None:
    """``settings.steps`` updates of ``settings.batch`` samples each, in passes of a seeded random order."""
    schedule = Schedule(settings.lr, kind="linear", warmup=settings.warmup_steps, total=settings.steps)
    learner = Learner(model, schedule, zero_stage=0)
    weights = [loss_weights(sample, settings.prompt_weight) for sample in samples]
    random = np.random.default_rng(seed)
    order: list[int] = []
    for step in range(1, settings.steps + 1):
        while len(order) < settings.batch:
            order.extend(random.permutation(len(samples)).tolist())
        chosen, order = order[: settings.batch], order[settings.batch :]
        stats = learner.supervised([samples[i] for i in chosen], [weights[i] for i in chosen])
        if on_step is not None:
            on_step(step, stats)


def loss_weights(sample: Sample, prompt_weight: float) -> Floats:
    """1 on action tokens, ``prompt_weight`` on the others, 0 on the first, which nothing predicts."""
    weights = np.where(sample.action_mask, 1.0, prompt_weight).astype(np.float32)
    weights[0] = 0.0
    return weights
