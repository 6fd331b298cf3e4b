"""Two steps of learners of many kinds. Run as a program: one of several processes."""

from __future__ import annotations

import gc
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from learner_helpers import make_batch, make_learner, make_model, make_reference
from mappa_rl.algos.aggregation import shares_of
from mappa_rl.config import Algo, Lora
from mappa_rl.distributed import barrier
from mappa_rl.learner.batch import Batch
from mappa_rl.learner.critic import ValueLoss, ValueTargets
from mappa_rl.learner.learner import Learner
from mappa_rl.learner.losses import Objective
from mappa_rl.learner.parallel import Processes, SharedLearner
from mappa_rl.models.lora import adapted
from mappa_rl.types import Demonstrations, Floats

STEPS = 2


class Case(NamedTuple):
    """``budget``: tokens of a micro-batch. ``broken``: one advantage of the first step is not a number.
    ``demonstrated``: with samples to imitate."""

    minibatches: int
    loss: str = "ppo"
    epochs: int = 1
    budget: int = 60
    zero_stage: int = 0
    lora: bool = False
    critic: bool = False
    demonstrated: bool = False
    broken: bool = False
    samples: int = 18
    aggregation: str = "token"


CASES = {
    **{f"{loss}, {n}": Case(n, loss=loss) for loss in ("ppo", "gspo", "cispo") for n in (1, 2, 4)},
    **{f"LoRA, {n}": Case(n, lora=True, epochs=2, zero_stage=2) for n in (1, 2, 4)},
    **{f"critic, {n}": Case(n, critic=True, epochs=2, zero_stage=2) for n in (1, 2, 4)},
    "LoRA with a critic": Case(2, lora=True, critic=True),
    "ZeRO 1": Case(2, zero_stage=1, epochs=2),
    "ZeRO 2": Case(4, zero_stage=2, epochs=2, loss="gspo"),
    "ZeRO 3": Case(4, zero_stage=3, epochs=2),
    "demonstrations": Case(2, demonstrated=True, epochs=2),
    "demonstrations, ZeRO 3": Case(4, demonstrated=True, zero_stage=3),
    "one sample in a micro-batch": Case(2, budget=1, zero_stage=2),
    "one micro-batch": Case(2, budget=10_000),
    "fewer samples than processes": Case(4, samples=6, epochs=2, zero_stage=2),
    **{f"mean of the {kind}": Case(2, aggregation=kind, zero_stage=2) for kind in ("sequence", "constant")},
    "not finite": Case(4, broken=True),
    "not finite, ZeRO 2": Case(4, broken=True, zero_stage=2),
    "not finite, ZeRO 3": Case(4, broken=True, zero_stage=3),
}


def batch_of(case: Case) -> Batch:
    """Samples near the policy, so that some ratios clip and some do not; one of them has no weight."""
    samples, advantages, weights = make_batch(case.samples)
    rng = np.random.default_rng(11)
    reference: list[Floats] = []
    for sample, own in zip(samples, make_reference(make_model()).logprobs(samples), strict=True):
        for into, spread in ((sample.logprobs, 0.3), (own, 0.5)):
            into[:] = np.minimum(own + rng.normal(0, spread, len(own)), 0) * sample.action_mask
        reference.append(own)
    weights[0] = 0 * weights[0]
    weights[2] = 0.4 * weights[2]
    values, returns = (
        [(rng.normal(size=len(s)) * s.action_mask).astype(np.float32) for s in samples] for _ in range(2)
    )
    targets = ValueTargets(values, returns, ValueLoss(0.7, 0.3)) if case.critic else None
    shares = shares_of(case.aggregation, samples, weights, 20)  # type: ignore[arg-type]
    return Batch(samples, advantages, weights, reference, targets, shares)


def learner_of(case: Case) -> Learner:
    model = make_model()
    return make_learner(
        adapted(model, Lora(rank=4, alpha=8), 0) if case.lora else model,
        1e-3,
        critic=case.critic,
        seed=5,
        minibatches=case.minibatches,
        epochs=case.epochs,
        tokens_per_micro_batch=case.budget,
        zero_stage=case.zero_stage,
    )


def measure(case: Case, learner: Learner | SharedLearner) -> list[dict[str, float]]:
    """The metrics of every step, and what the policy has become: the mean log-prob of each sample."""
    batch = batch_of(case)
    objective = Objective(Algo(loss=case.loss, clip_low=0.05, clip_high=0.05, kl="loss_k3", kl_coef=0.1))
    shown = None
    if case.demonstrated:
        samples, _, weights = make_batch(7, seed=3)
        shown = Demonstrations(samples, weights, 0.5)
    history = []
    for step in range(STEPS):
        given = batch
        if case.broken and step == 0:
            advantages = [np.full_like(a, np.nan) if i == 3 else a for i, a in enumerate(batch.advantages)]
            given = replace(batch, advantages=advantages)
        history.append(dict(learner.step(given, objective, shown)))
    after = learner.logprobs(batch.samples)
    history.append({f"sample {i}": float(row.sum() / (row != 0).sum()) for i, row in enumerate(after)})
    return history


def main(out: Path) -> None:
    torch.set_num_threads(1)
    learners: dict[str, Any] = {name: learner_of(case) for name, case in CASES.items()}
    processes = Processes(learners)
    if processes.rank == 0:
        shared = {name: SharedLearner(name, processes, learner) for name, learner in learners.items()}
        with processes:
            found = {name: measure(case, shared[name]) for name, case in CASES.items()}
        out.write_text(json.dumps(found), encoding="utf-8")
    else:
        processes.follow()
    gc.collect()
    barrier()  # a process must not leave a group that another still uses


if __name__ == "__main__":
    main(Path(sys.argv[1]))
