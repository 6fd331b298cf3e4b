"""Small models and random samples for the learner's tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from mappa_rl.config import Algo, Optim
from mappa_rl.distributed import world
from mappa_rl.learner.batch import Batch
from mappa_rl.learner.forward import Reference, Scorer
from mappa_rl.learner.learner import Learner
from mappa_rl.learner.losses import Objective
from mappa_rl.learner.lr_schedule import Schedule
from mappa_rl.learner.minibatches import Minibatches
from mappa_rl.types import Demonstrations, Floats, Sample, Span, StepStats
from small_qwen import VOCAB, small_qwen


def make_model(seed: int = 0, layers: int = 2) -> Any:
    return small_qwen(seed, num_hidden_layers=layers)


def make_optim(**options: Any) -> Optim:
    """Stage 2 and one minibatch unless the test says otherwise."""
    return Optim(**{"zero_stage": 2, "minibatches": 1, **options})


def constant(lr: float, warmup: int = 0) -> Schedule:
    return Schedule(lr, "constant", warmup=warmup, total=0, floor=0.0)


def make_learner(
    model: Any, schedule: Schedule | float, *, critic: bool = False, seed: int = 0, **options: Any
) -> Learner:
    """A learner at temperature 1; ``options`` are keys of the ``optim`` section."""
    if isinstance(schedule, float):
        schedule = constant(schedule)
    return Learner(model, make_optim(**options), schedule, temperature=1.0, critic=critic, seed=seed)


def make_reference(model: Any, **options: Any) -> Reference:
    return Reference(model, make_optim(**options), temperature=1.0)


def make_scorer(model: Any, temperature: float = 1.0, *, chunk: int | None = None, **options: Any) -> Scorer:
    return Scorer(model, make_optim(**options), temperature=temperature, chunk=chunk)


def take_step(
    learner: Any,
    samples: Sequence[Sample],
    advantages: Sequence[Floats],
    weights: Sequence[Floats],
    *,
    objective: Objective | None = None,
    demonstrations: Demonstrations | None = None,
    **targets: Any,
) -> StepStats:
    """One step with PPO's objective unless given; ``targets`` are further fields of the batch.

    With several processes: one update, to which each gives all of its samples.
    """
    batch = Batch(samples, advantages, weights, **targets)
    part = None if world()[1] == 1 else Minibatches([[list(range(len(samples)))]], learner.draw(batch).random)
    stats: StepStats = learner.step(batch, objective or Objective(Algo()), demonstrations, part)
    return stats


def make_sample(
    lengths: Sequence[tuple[int, int]],
    rewards: Sequence[float],
    *,
    seed: int = 0,
    valid: Sequence[bool] | None = None,
    policy: str = "p",
    agent: str = "a_0",
    part: int = 0,
) -> Sample:
    """A sample of (context, action) lengths in turn, with random ids and log-probs."""
    rng = np.random.default_rng(seed)
    spans, at = [], 0
    for k, (context, action) in enumerate(lengths):
        start = at + context
        at = start + action
        spans.append(Span(start, at, rewards[k], valid is None or valid[k], k))
    mask = np.zeros(at, np.bool_)
    for span in spans:
        mask[span.start : span.end] = True
    logprobs = np.where(mask, -rng.uniform(2, 6, at), 0).astype(np.float32)
    return Sample(rng.integers(0, VOCAB, at), mask, logprobs, tuple(spans), policy, agent, part)


def make_batch(count: int = 12, seed: int = 0) -> tuple[list[Sample], list[Floats], list[Floats]]:
    """Samples of mixed lengths (one and two actions), advantages and weights; one action is invalid."""
    rng = np.random.default_rng(seed)
    samples = []
    for k in range(count):
        lengths = [tuple(int(n) for n in rng.integers(2, 15, 2)) for _ in range(1 + k % 2)]
        samples.append(make_sample(lengths, [1.0] * len(lengths), seed=seed * 1000 + k))
    advantages = [(rng.normal(size=len(s)) * s.action_mask).astype(np.float32) for s in samples]
    weights = [s.action_mask.astype(np.float32) for s in samples]
    weights[1][samples[1].spans[0].start : samples[1].spans[0].end] = 0
    return samples, advantages, weights


def parameters(model: torch.nn.Module) -> torch.Tensor:
    return torch.cat([p.detach().flatten().clone() for p in model.parameters()])


def padded_gradient(
    model: Any,
    samples: Sequence[Sample],
    advantages: Sequence[Floats],
    weights: Sequence[Floats],
    clip: float = 0.2,
) -> tuple[float, list[torch.Tensor]]:
    """The plain loop: one padded batch, the ordinary forward pass, ordinary autograd."""
    longest = max(map(len, samples))

    def padded(arrays: Sequence[Any], dtype: torch.dtype) -> torch.Tensor:
        return torch.tensor(np.stack([np.pad(a, (0, longest - len(a))) for a in arrays]), dtype=dtype)

    ids = padded([s.ids for s in samples], torch.long)
    seen = padded([np.ones(len(s)) for s in samples], torch.long)
    old, values, mass = (
        padded(arrays, torch.float32)[:, 1:]
        for arrays in ([s.logprobs for s in samples], advantages, weights)
    )
    model.zero_grad()
    logits = model(input_ids=ids, attention_mask=seen, use_cache=False).logits[:, :-1]
    ratio = (logits.log_softmax(-1).gather(2, ids[:, 1:, None])[..., 0] - old).exp()
    gain = torch.minimum(ratio * values, ratio.clamp(1 - clip, 1 + clip) * values)
    loss = -(gain * mass).sum() / mass.sum()
    loss.backward()
    return loss.item(), [parameter.grad.clone() for parameter in model.parameters()]


def gradient_of(learner: Any, *batch: Any, **options: Any) -> tuple[Any, list[torch.Tensor]]:
    """Stats and accumulated gradient of one ``learner.step`` (stage 0), which is not applied."""
    caught: list[torch.Tensor] = []

    def apply() -> float:
        caught.extend(parameter.grad.clone() for parameter in learner.model.parameters())
        learner._engine.zero_grad()
        return 0.0

    learner._apply = apply
    return take_step(learner, *batch, **options), caught
