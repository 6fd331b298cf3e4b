"""One policy's trainable weights: scores samples, takes optimizer steps, saves and restores exactly."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from mappa_rl.backend import all_max, all_sum, make_engine, world
from mappa_rl.errors import CheckpointError, LearnerError
from mappa_rl.losses import Loss, clip_loss, likelihood_loss
from mappa_rl.packing import pack, split_by_tokens
from mappa_rl.schedule import Schedule
from mappa_rl.scoring import Scorer, Scores, score
from mappa_rl.types import Floats, PackedBatch, Sample, StepStats

_LossOf = Callable[[Scores, PackedBatch, float], Loss]


class Learner:
    """Trains ``model`` in place (dropout off) with AdamW under DeepSpeed.

    ``tokens_per_micro_batch`` bounds memory and never changes a gradient. ``temperature`` is the one that
    actions are sampled with. ``updates`` counts optimizer updates, which is what ``schedule`` is a function
    of. With several processes, each calls every method with its own share of the samples, which may be none;
    counts and gradients are those of all shares together.
    """

    def __init__(
        self,
        model: nn.Module,
        schedule: Schedule,
        *,
        betas: tuple[float, float] = (0.9, 0.95),
        weight_decay: float = 0.0,
        grad_clip: float = 1.0,
        tokens_per_micro_batch: int = 8192,
        zero_stage: int = 2,
        temperature: float = 1.0,
        seed: int = 0,
    ) -> None:
        self.model: Any = model.eval()
        self.updates = 0
        self._schedule, self._clip, self._stage = schedule, grad_clip, zero_stage
        self._budget = tokens_per_micro_batch
        self._random = np.random.default_rng(seed)
        self._engine = make_engine(
            Scorer(model, temperature),
            betas=betas, weight_decay=weight_decay, grad_clip=grad_clip, zero_stage=zero_stage,
        )  # fmt: skip

    def logprobs(self, samples: Sequence[Sample]) -> list[Floats]:
        """Log-probs [T] of every sample's action tokens under the current weights, 0 elsewhere."""
        return score(self._engine.module, samples, self._budget)

    def step(
        self,
        samples: Sequence[Sample],
        advantages: Sequence[Floats],
        weights: Sequence[Floats],
        *,
        clip: float = 0.2,
        epochs: int = 1,
        minibatches: int = 1,
    ) -> StepStats:
        """``epochs * minibatches`` updates with the clipped loss; ``samples[i].logprobs`` are the old policy.

        Stats: ``loss``, ``grad_norm`` (before clipping), ``entropy`` (nats per token), ``clip_fraction``,
        ``kl`` (old to new, nats per token), ``lr``: means over updates; ``mismatch``: mean absolute
        difference between learner and sampler per token in the first minibatch, before any update;
        ``tokens`` and ``action_tokens`` (per pass), ``updates``. Without a weighted token nothing changes and
        the stats are ``{"skipped": 1.0}``.
        """

        def loss(scores: Scores, batch: PackedBatch, total: float) -> Loss:
            old, values, mass = self._tensors(batch.logprobs, batch.advantages, batch.weights)
            found = clip_loss(scores.logprobs, old, values, mass, total=total, clip=clip)
            found.sums["entropy"] = (scores.entropy * mass).sum()
            return found

        kept = [i for i, mass in enumerate(weights) if mass.any()]
        (total,) = all_sum(sum(float(weights[i].sum()) for i in kept))
        if total == 0:
            return StepStats(skipped=1.0)
        history: list[StepStats] = []
        for _ in range(epochs):
            order = [kept[k] for k in self._random.permutation(len(kept))]
            for part in np.array_split(np.array(order, np.int64), minibatches):
                history += self._update(samples, advantages, weights, part.tolist(), loss)
        stats = _mean(history)
        stats["mismatch"] = history[0]["difference"]
        del stats["difference"]
        stats["action_tokens"] = total
        (stats["tokens"],) = all_sum(sum(len(samples[i]) for i in kept))
        stats["updates"] = float(len(history))
        return stats

    def supervised(self, samples: Sequence[Sample], weights: Sequence[Floats]) -> StepStats:
        """One update towards the samples' own tokens; ``weights`` [T] each (>= 0, the first token's 0).

        Stats: ``loss`` (weighted mean negative log-likelihood in nats), ``grad_norm``, ``lr``; or
        ``{"skipped": 1.0}`` where no token has a weight.
        """

        def loss(scores: Scores, batch: PackedBatch, total: float) -> Loss:
            return likelihood_loss(scores.logprobs, *self._tensors(batch.weights), total=total)

        history = self._update(samples, None, weights, list(range(len(samples))), loss)
        return history[0] if history else StepStats(skipped=1.0)

    def save(self, folder: Path) -> None:
        """Write weights, optimizer, schedule position and random state. All processes call it."""
        self._engine.save_checkpoint(str(folder), tag="engine", save_latest=False)
        if world()[0] == 0:
            state = {
                "updates": self.updates,
                "zero_stage": self._stage,
                "processes": world()[1],
                "random": self._random.bit_generator.state,
            }
            (folder / "learner.json").write_text(json.dumps(state), encoding="utf-8")

    def export(self, folder: Path, tokenizer: Any = None) -> None:
        """Write a plain Hugging Face folder, with the tokenizer if given. All processes call it."""
        if world()[0] == 0:
            self.model.save_pretrained(folder)
            if tokenizer is not None:
                tokenizer.save_pretrained(folder)

    def load(self, folder: Path) -> None:
        """Become exactly the learner that was saved. Raises ``CheckpointError``."""
        try:
            state = json.loads((folder / "learner.json").read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise CheckpointError(f"{folder} holds no learner: {error}") from error
        for key, own in (("zero_stage", self._stage), ("processes", world()[1])):
            if state[key] != own:
                raise CheckpointError(f"{folder} was saved with {key}={state[key]}, not {own}: use that.")
        try:
            found, _ = self._engine.load_checkpoint(str(folder), tag="engine")
        except RuntimeError as error:
            raise CheckpointError(f"{folder} does not fit this model: {error}") from error
        if found is None:
            raise CheckpointError(f"{folder} has no engine state that can be read.")
        self.updates = state["updates"]
        self._random.bit_generator.state = state["random"]

    def _update(
        self,
        samples: Sequence[Sample],
        advantages: Sequence[Floats] | None,
        weights: Sequence[Floats],
        chosen: Sequence[int],
        loss_of: _LossOf,
    ) -> list[StepStats]:
        """One optimizer update on the chosen samples; empty where no token has a weight."""
        chosen = [i for i in chosen if weights[i].any()]
        (total,) = all_sum(sum(float(weights[i].sum(dtype=np.float64)) for i in chosen))
        if total == 0:
            return []
        parts = [
            pack(*_pick(samples, advantages, weights, [chosen[k] for k in part]))
            for part in split_by_tokens([len(samples[i]) for i in chosen], self._budget)
        ]
        count, share = all_max(len(parts)), world()[1]
        sums: dict[str, float] = defaultdict(float)
        for k in range(count):
            self._engine.set_gradient_accumulation_boundary(k == count - 1)
            batch = parts[k] if k < len(parts) else _DUMMY
            loss = loss_of(self._engine(batch), batch, total)
            if not torch.isfinite(loss.value):
                raise LearnerError(
                    f"The loss is {loss.value.item()} at update {self.updates}: the weights have diverged. "
                    "Resume from a checkpoint with a lower learning rate."
                )
            self._engine.backward(loss.value * share)  # DeepSpeed averages over processes
            sums["loss"] += float(loss.value.detach()) * total
            for name, value in loss.sums.items():
                sums[name] += float(value)
        lr = self._schedule(self.updates)
        for group in self._engine.optimizer.param_groups:
            group["lr"] = lr
        norm = self._apply()
        self.updates += 1
        reduced = zip(sums, all_sum(*sums.values()), strict=True)
        return [StepStats({name: value / total for name, value in reduced}, grad_norm=norm, lr=lr)]

    def _apply(self) -> float:
        """Clip, update, and return the gradient's norm before clipping."""
        engine = self._engine
        if self._stage == 0:
            norm = float(nn.utils.clip_grad_norm_(engine.module.parameters(), self._clip))
            engine.step()
        else:
            engine.step()
            norm = float(engine.get_global_grad_norm())
        if not np.isfinite(norm):
            raise LearnerError(
                f"The gradient's norm is {norm} at update {self.updates}: the weights are lost. "
                "Resume from a checkpoint with a lower learning rate."
            )
        return norm

    def _tensors(self, *arrays: Floats) -> list[Tensor]:
        device = next(self.model.parameters()).device
        return [torch.from_numpy(array).to(device) for array in arrays]


def _pick(
    samples: Sequence[Sample],
    advantages: Sequence[Floats] | None,
    weights: Sequence[Floats],
    chosen: Sequence[int],
) -> tuple[list[Sample], list[Floats], list[Floats] | None]:
    values = None if advantages is None else [advantages[i] for i in chosen]
    return [samples[i] for i in chosen], [weights[i] for i in chosen], values


def _mean(history: Sequence[StepStats]) -> StepStats:
    return StepStats({name: float(np.mean([stats[name] for stats in history])) for name in history[0]})


_DUMMY = PackedBatch(  # what a process without samples runs, so that collectives meet: no weight, no gradient
    ids=np.zeros(2, np.int64),
    position_ids=np.arange(2),
    cu_seqlens=np.array([0, 2], np.int32),
    rows=np.zeros(1, np.int64),
    targets=np.zeros(1, np.int64),
    logprobs=np.zeros(1, np.float32),
    advantages=np.zeros(1, np.float32),
    weights=np.zeros(1, np.float32),
)
