"""One step on given rollouts, by this learner and by TRL's."""

from __future__ import annotations

import statistics
from typing import Any

import torch

from gpu_parts.figure import Figure
from gpu_parts.memory import memory
from gpu_parts.package import need
from gpu_parts.where import Where


def rollouts_ours(where: Where) -> list[Figure]:
    """One step on the rollouts that TRL gets too: bf16 weights, ZeRO 2."""
    from mappa_rl.config import Algo, Optim
    from mappa_rl.learner.batch import Batch
    from mappa_rl.learner.learner import Learner
    from mappa_rl.learner.losses import Objective
    from mappa_rl.learner.lr_schedule import Schedule

    model, found = _rollouts(where)
    optim = Optim(zero_stage=2, minibatches=1, tokens_per_micro_batch=where.sizes.pack)
    schedule = Schedule(0.0, "constant", warmup=0, total=0, floor=0.0)
    mine = Learner(model, optim, schedule, temperature=1.0, critic=False, seed=0)
    batch = Batch(found.samples, found.advantages, found.weights)
    spent = where.seconds(lambda: mine.step(batch, Objective(Algo())), 3)
    return [(f"{len(found.samples)} rollouts", f"{found.tokens / spent:,.0f} tokens/s", ""), *memory(where)]


def rollouts_trl(where: Where) -> list[Figure]:
    """``GRPOTrainer`` on the same rollouts, bf16 autocast over fp32 weights, which is what it offers."""
    for name in ("trl", "datasets"):
        need(name)
    from learner_trl import trl

    model, found = _rollouts(where)
    model = model.float()
    rows = []
    for batch in (8, 32):
        folder = str(where.scratch / f"trl-{batch}")
        step = trl(model, found, batch, torch.get_num_threads(), folder, gpu=where.device == "cuda")
        spent = statistics.median([step().clock for _ in range(3)][1:])
        name = f"{len(found.samples)} rollouts, {batch} at a time"
        rows.append((name, f"{found.tokens / spent:,.0f} tokens/s", ""))
    return [*rows, *memory(where)]


def _rollouts(where: Where) -> tuple[Any, Any]:
    from learner_rollouts import action_lengths, make_rollouts

    model = where.model()
    longest = 64 if where.tiny else 768
    return model, make_rollouts(model, action_lengths("long-tailed", 32 if where.tiny else 64, longest))
