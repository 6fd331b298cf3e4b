"""One step on the same actions, cut and dealt in every way. Run as a program: one of several processes."""

from __future__ import annotations

import gc
import json
import os
import sys
from pathlib import Path
from typing import Any, NamedTuple

import deepspeed
import numpy as np
import torch

from learner_helpers import VOCAB, make_learner, make_model, make_reference, take_step
from mappa_rl.distributed import barrier
from mappa_rl.learner.critic import ValueLoss, ValueTargets
from mappa_rl.learner.samples import merge_turns
from mappa_rl.types import Floats, Sample, Turn

ADVANTAGES = np.random.default_rng(7).normal(size=(6, 3))  # by segment and step


class Variant(NamedTuple):
    """``merged``: a segment is one sequence, not one each turn; ``budget`` in tokens; ``critic``: with
    a value head that learns too."""

    merged: bool = True
    budget: int = 10_000
    zero_stage: int = 0
    offload: bool = False
    gradient_checkpointing: bool = False
    chunk: int = 2**24
    dtype: str = "float32"
    critic: bool = False
    autocast: bool = False


def actions(merged: bool) -> tuple[list[Sample], list[Floats], list[Floats]]:
    """Six segments of one to three turns that extend each other, near the policy: some ratios clip."""
    rng = np.random.default_rng(3)
    segments: list[list[Turn]] = []
    for k in range(len(ADVANTAGES)):
        past: list[int] = []
        segment = []
        for step in range(1 + k % 3):
            context = [*past, *rng.integers(0, VOCAB, int(rng.integers(3, 12))).tolist()]
            ids = rng.integers(0, VOCAB, int(rng.integers(2, 9))).tolist()
            segment.append(
                Turn(
                    "a_0", "p", step, step, context, ids, [0.0] * len(ids), "eos", 1.0, True, ("", "a", step)
                )
            )
            past = [*context, *ids]
        segments.append(segment)
    whole = [merge_turns(segment)[0] for segment in segments]
    own = make_reference(make_model()).logprobs(whole)
    for sample, values in zip(whole, own, strict=True):
        noise = rng.normal(0, 0.3, len(sample))
        sample.logprobs[:] = np.minimum(values + noise, 0) * sample.action_mask
    samples, advantages = [], []
    for sample, segment, by_step in zip(whole, segments, ADVANTAGES, strict=True):
        for mine in [sample] if merged else [_alone(turn, sample) for turn in segment]:
            values = np.zeros(len(mine), np.float32)
            for span in mine.spans:
                values[span.start : span.end] = by_step[span.step]
            samples.append(mine)
            advantages.append(values)
    return samples, advantages, [sample.action_mask.astype(np.float32) for sample in samples]


def criticism_of(samples: list[Sample]) -> ValueTargets:
    """Random values and returns of one process's share or of all: they follow from the sample alone."""
    drawn = [np.random.default_rng(sample.ids.tolist()).normal(size=(2, len(sample))) for sample in samples]
    values, returns = (
        [(both[k] * s.action_mask).astype(np.float32) for both, s in zip(drawn, samples, strict=True)]
        for k in range(2)
    )
    return ValueTargets(values, returns, ValueLoss(coef=0.7, clip=0.3))


def measure(variant: Variant, rank: int = 0, processes: int = 1) -> tuple[float, ...]:
    """Loss and gradient norm of the step, and with a critic its loss and the share of clipped values.

    Shares are unequal: rank 0 has all but the last two sequences.
    """
    learner = make_learner(
        make_model().to(getattr(torch, variant.dtype)),
        1e-3,
        zero_stage=variant.zero_stage,
        offload=variant.offload,
        gradient_checkpointing=variant.gradient_checkpointing,
        autocast=variant.autocast,
        tokens_per_micro_batch=variant.budget,
        critic=variant.critic,
    )
    learner._engine.module._chunk = variant.chunk
    samples, advantages, weights = actions(variant.merged)
    mine = slice(None) if processes == 1 else slice(0, -2) if rank == 0 else slice(-2, None)
    if not variant.critic:
        stats = take_step(learner, samples[mine], advantages[mine], weights[mine])
        return stats["loss"], stats["grad_norm"]
    head = learner._engine.module.critic
    with deepspeed.zero.GatheredParameters(list(head.parameters()), modifier_rank=0), torch.no_grad():
        head.weight.copy_(torch.linspace(-1, 1, head.weight.numel()))  # not 0: the trunk has a gradient of it
        head.bias.fill_(0.2)
    stats = take_step(
        learner, samples[mine], advantages[mine], weights[mine], value_targets=criticism_of(samples[mine])
    )
    return stats["loss"], stats["grad_norm"], stats["value_loss"], stats["value_clip_fraction"]


def _alone(turn: Turn, whole: Sample) -> Sample:
    (sample,) = merge_turns([turn])
    start = len(turn.context_ids)
    sample.logprobs[start:] = whole.logprobs[start : len(sample)]
    return sample


def main(out: Path, variants: dict[str, list[Any]]) -> None:
    rank, processes = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.set_num_threads(1)
    found = {name: measure(Variant(*values), rank, processes) for name, values in variants.items()}
    gc.collect()
    barrier()  # a process must not leave a group that another still uses
    if rank == 0:
        out.write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]))
