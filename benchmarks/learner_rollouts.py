"""Shared by everything that ``benchmarks/learner.py`` compares: model, recorded rollouts and stopwatch."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

from mappa_rl.config import Optim
from mappa_rl.learner.forward import Reference
from mappa_rl.types import Floats, Sample, Span

PROMPT, GROUP, EPS = 48, 8, 1e-4  # EPS: what TRL adds to a group's standard deviation
SETS = ("long-tailed", "equal")


class Outcome(NamedTuple):
    """One step: processor seconds and wall seconds, and the results that must agree."""

    seconds: float
    clock: float
    loss: float
    norm: float


class Stopwatch:
    """Starts when it is created."""

    def __init__(self) -> None:
        self._processor, self._clock = time.process_time(), time.perf_counter()

    def read(self) -> tuple[float, float]:
        """Processor seconds and wall seconds."""
        return time.process_time() - self._processor, time.perf_counter() - self._clock


class Rollouts(NamedTuple):
    """``advantages`` and ``weights`` [T] per sample; ``rewards`` one per sample."""

    samples: list[Sample]
    advantages: list[Floats]
    weights: list[Floats]
    rewards: list[float]

    @property
    def tokens(self) -> int:
        return sum(map(len, self.samples))

    @property
    def actions(self) -> int:
        return int(sum(weight.sum() for weight in self.weights))


def make_model(vocabulary: int) -> Any:
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=vocabulary,
        hidden_size=192,
        num_hidden_layers=4,
        num_attention_heads=6,
        num_key_value_heads=2,
        head_dim=32,
        intermediate_size=512,
        max_position_embeddings=2048,
        tie_word_embeddings=True,
        attn_implementation="sdpa",
        eos_token_id=1,
        pad_token_id=0,
    )
    return Qwen3ForCausalLM(config).float().eval()


def action_lengths(kind: str, count: int, longest: int) -> list[int]:
    """``long-tailed``: lognormal (median 110, sigma 0.9), cut at ``longest``, which one has; ``equal``: the
    same number of tokens, in equal parts."""
    rng = np.random.default_rng(0)
    drawn = np.exp(rng.normal(math.log(110 * longest / 768), 0.9, count))
    lengths = np.clip(drawn, 8, longest).astype(int)
    lengths[int(rng.integers(count))] = longest
    return lengths.tolist() if kind == "long-tailed" else [round(lengths.mean())] * count


def make_rollouts(model: Any, lengths: Sequence[int]) -> Rollouts:
    """Random tokens with the model's own log-probs; advantages (r - mean) / (std + 1e-4) within a group."""
    rng = np.random.default_rng(1)
    prompts = rng.integers(2, model.config.vocab_size, (len(lengths) // GROUP, PROMPT))
    samples, rewards = [], rng.uniform(0, 1, len(lengths))
    for k, size in enumerate(lengths):
        ids = np.concatenate([prompts[k // GROUP], rng.integers(2, model.config.vocab_size, size)])
        mask = np.arange(len(ids)) >= PROMPT
        span = Span(PROMPT, len(ids), float(rewards[k]), True)
        samples.append(Sample(ids, mask, np.zeros(len(ids), np.float32), (span,), "p", "a_0"))
    for sample, own in zip(
        samples, Reference(copy.deepcopy(model), Optim(), temperature=1.0).logprobs(samples), strict=True
    ):
        sample.logprobs[:] = own
    groups = torch.from_numpy(rewards).float().view(-1, GROUP)
    values = (groups - groups.mean(1, True)) / (groups.std(1, keepdim=True) + EPS)
    advantages = [
        (sample.action_mask * float(value)).astype(np.float32)
        for sample, value in zip(samples, values.flatten(), strict=True)
    ]
    weights = [sample.action_mask.astype(np.float32) for sample in samples]
    return Rollouts(samples, advantages, weights, rewards.tolist())
