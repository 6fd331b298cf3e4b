"""One policy's trainable weights: scores samples, takes optimizer steps, saves and restores exactly."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from mappa_rl.attention import Kernel
from mappa_rl.backend import all_max, all_peak, all_states, all_sum, gathered, make_engine, world
from mappa_rl.critic import Criticism
from mappa_rl.errors import CheckpointError, LearnerError
from mappa_rl.lora import is_adapted, keep_trained, merged, save_adapter
from mappa_rl.losses import Loss, Objective, likelihood_loss
from mappa_rl.packing import DUMMY, pack, split_by_tokens
from mappa_rl.schedule import Schedule
from mappa_rl.scoring import Scorer, Scores, score
from mappa_rl.types import Demonstrations, Floats, Ints, PackedBatch, Sample, StepStats

_PPO = Objective()
_LossOf = Callable[[Scores, PackedBatch, float], Loss]


class _Term(NamedTuple):
    """One summand of an update's loss, ``coef`` times the ``loss`` of these samples.

    ``name`` comes before those of its stats.
    """

    samples: Sequence[Sample]
    weights: Sequence[Floats]
    loss: _LossOf
    advantages: Sequence[Floats] | None = None
    coef: float = 1.0
    name: str = ""
    reference: Sequence[Floats] | None = None
    criticism: Criticism | None = None


class Learner:
    """Trains ``model`` in place (dropout off) with AdamW under DeepSpeed.

    ``tokens_per_micro_batch`` and ``gradient_checkpointing`` bound memory and never change a gradient; for
    ``zero_stage`` and ``offload`` see ``make_engine``. ``temperature`` is the one that actions are sampled
    with; ``critic``: with a value head, which ``step`` trains too. ``updates`` counts optimizer updates,
    which is what ``schedule`` is a function of. With several processes, each calls every method with its own
    share of the samples, which may be none; counts and gradients are those of all shares together.
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
        offload: bool = False,
        gradient_checkpointing: bool = False,
        temperature: float = 1.0,
        attention: Kernel = "auto",
        critic: bool = False,
        seed: int = 0,
    ) -> None:
        self.model: Any = model.eval()
        self.updates = 0
        self._schedule, self._clip, self._stage = schedule, grad_clip, zero_stage
        self._budget = tokens_per_micro_batch
        self._random = np.random.default_rng(seed)
        self._adapted = is_adapted(model)
        self._critic = critic
        scorer = Scorer(
            model, temperature, gradient_checkpointing=gradient_checkpointing, attention=attention,
            critic=critic,
        )  # fmt: skip
        if self._adapted:
            scorer.register_state_dict_post_hook(keep_trained)
        self._engine = make_engine(
            scorer, betas=betas, weight_decay=weight_decay, grad_clip=grad_clip, zero_stage=zero_stage,
            offload=offload,
        )  # fmt: skip

    def logprobs(self, samples: Sequence[Sample]) -> list[Floats]:
        """Log-probs [T] of every sample's action tokens under the current weights, 0 elsewhere."""
        return score(self._engine.module, samples, self._budget, together=self._stage == 3)

    def values(self, samples: Sequence[Sample]) -> list[Floats]:
        """What the critic expects before every sample's action tokens, [T] each, 0 elsewhere."""
        if not self._critic:
            raise LearnerError("This learner has no critic: make it with Learner(..., critic=True).")
        return score(self._engine.module, samples, self._budget, together=self._stage == 3, what="values")

    def step(
        self,
        samples: Sequence[Sample],
        advantages: Sequence[Floats],
        weights: Sequence[Floats],
        *,
        objective: Objective = _PPO,
        reference: Sequence[Floats] | None = None,
        criticism: Criticism | None = None,
        epochs: int = 1,
        minibatches: int = 1,
        demonstrations: Demonstrations | None = None,
    ) -> StepStats:
        """``epochs * minibatches`` updates with the objective; ``samples[i].logprobs`` are the old policy.

        ``reference``: log-probs [T] of each sample under the reference, for an objective with a KL penalty.
        ``criticism``: what a critic learns from in the same backward pass; its loss is added to the policy's.

        Stats: ``loss``, ``grad_norm`` (before clipping), ``entropy`` (nats per token), ``clip_fraction``,
        ``kl`` (old to new, nats per token), ``kl_loss`` (where the objective has one), ``value_loss`` and
        ``value_clip_fraction`` (with a critic), ``lr``: means over updates; ``mismatch`` and
        ``mismatch_max``: mean and largest absolute difference between learner and old policy per token in the
        first minibatch, before any update; ``tokens`` and ``action_tokens`` (per pass), ``updates``. Without
        a weighted token nothing changes and the stats are ``{"skipped": 1.0}``.

        ``demonstrations`` add ``coef`` times the sum of their tokens' negative log-likelihoods, divided like
        the rest by the minibatch's action tokens: a few weigh little. Stats: ``sft_loss`` (nats per
        demonstrated token), ``sft_tokens`` (per pass).
        """

        def loss(scores: Scores, batch: PackedBatch, total: float) -> Loss:
            old, values, mass = self._tensors(batch.logprobs, batch.advantages, batch.weights)
            far, actions = self._tensors(batch.reference, batch.actions)
            found = objective(scores.logprobs, old, values, mass, total=total, actions=actions, reference=far)
            found.sums["entropy"] = (scores.entropy * mass).sum()
            if not history:
                gap = (scores.logprobs.detach() - old).abs() * (mass != 0)
                furthest.append(float(gap.max()))
            if criticism is None:
                return found
            before, returns = self._tensors(batch.values, batch.returns)
            assert scores.values is not None
            value = criticism.loss(scores.values, before, returns, mass, total=total)
            return Loss(found.value + value.value, found.sums | value.sums)

        kept = [i for i, mass in enumerate(weights) if mass.any()]
        (total,) = all_sum(sum(float(weights[i].sum()) for i in kept))
        if total == 0:
            return StepStats(skipped=1.0)
        if (criticism is not None) != self._critic:
            raise LearnerError(
                f"This learner has {'a' if self._critic else 'no'} critic, and the step has "
                f"{'nothing' if criticism is None else 'something'} for one to learn from: both, or neither."
            )
        terms = [_Term(samples, weights, loss, advantages, reference=reference, criticism=criticism)]
        pool = [kept]
        if demonstrations is not None:
            terms.append(
                _Term(demonstrations.samples, demonstrations.weights, self._likelihood,
                      coef=demonstrations.coef, name="sft_")
            )  # fmt: skip
            pool.append(list(range(len(demonstrations.samples))))
        history: list[StepStats] = []
        furthest = [0.0]
        for _ in range(epochs):
            order = [self._random.permutation(np.array(chosen, np.int64)) for chosen in pool]
            for part in zip(*(np.array_split(each, minibatches) for each in order), strict=True):
                history += self._update(terms, [each.tolist() for each in part])
        stats = _mean(history)
        stats["mismatch"], stats["mismatch_max"] = history[0]["difference"], all_peak(max(furthest))
        del stats["difference"]
        stats["action_tokens"] = total
        (stats["tokens"],) = all_sum(sum(len(samples[i]) for i in kept))
        stats["updates"] = float(len(history))
        if "sft_tokens" in stats:
            stats["sft_tokens"] = sum(each.get("sft_tokens", 0.0) for each in history) / epochs
        return stats

    def supervised(self, samples: Sequence[Sample], weights: Sequence[Floats]) -> StepStats:
        """One update towards the samples' own tokens; ``weights`` [T] each (>= 0, the first token's 0).

        Stats: ``loss`` (weighted mean negative log-likelihood in nats), ``grad_norm``, ``lr``; or
        ``{"skipped": 1.0}`` where no token has a weight.
        """

        history = self._update([_Term(samples, weights, self._likelihood)], [list(range(len(samples)))])
        return history[0] if history else StepStats(skipped=1.0)

    def save(self, folder: Path) -> None:
        """Write trainable weights, optimizer, schedule position and random state. All processes call it."""
        self._engine.save_checkpoint(
            str(folder), tag="engine", save_latest=False, exclude_frozen_parameters=self._adapted
        )
        random = all_states(self._random.bit_generator.state)
        if world()[0] == 0:
            state = {
                "updates": self.updates,
                "zero_stage": self._stage,
                "processes": world()[1],
                "adapter": self._adapter(),
                "critic": self._critic,
                "random": random,
            }
            (folder / "learner.json").write_text(json.dumps(state), encoding="utf-8")

    def export(self, folder: Path, tokenizer: Any = None) -> None:
        """Write a plain Hugging Face folder, with the tokenizer if given; an adapter is merged.

        All processes call it.
        """
        with gathered(self.model):
            if world()[0] == 0:
                state = merged(self.model) if self._adapted else None
                self.model.save_pretrained(folder, state_dict=state)
                if tokenizer is not None:
                    tokenizer.save_pretrained(folder)

    def export_adapter(self, folder: Path) -> None:
        """Write the adapter as a PEFT folder. All processes call it."""
        with gathered(self.model):
            if world()[0] == 0:
                save_adapter(self.model, folder)

    def load(self, folder: Path) -> None:
        """Become exactly the learner that was saved. Raises ``CheckpointError``."""
        try:
            state = json.loads((folder / "learner.json").read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise CheckpointError(f"{folder} holds no learner: {error}") from error
        for key, own in (("zero_stage", self._stage), ("processes", world()[1])):
            if state[key] != own:
                raise CheckpointError(f"{folder} was saved with {key}={state[key]}, not {own}: use that.")
        if state.get("adapter") != self._adapter():
            raise CheckpointError(f"{folder} does not fit this model: it holds another adapter, or none.")
        if state.get("critic", False) != self._critic:
            raise CheckpointError(
                f"{folder} was saved {'without' if self._critic else 'with'} a critic: it belongs to another "
                "algorithm. Use the algo.name that it was made with."
            )
        try:
            found, _ = self._engine.load_checkpoint(
                str(folder), tag="engine", load_module_strict=not self._adapted
            )
        except RuntimeError as error:
            raise CheckpointError(f"{folder} does not fit this model: {error}") from error
        if found is None:
            raise CheckpointError(f"{folder} has no engine state that can be read.")
        self.updates = state["updates"]
        self._random.bit_generator.state = state["random"][world()[0]]

    def _adapter(self) -> dict[str, list[int]] | None:
        """Shapes of an adapter's parameters by name; None where the whole model is trained."""
        named = ((name, p) for name, p in self.model.named_parameters() if p.requires_grad)
        return {name: list(getattr(p, "ds_shape", p.shape)) for name, p in named} if self._adapted else None

    def _likelihood(self, scores: Scores, batch: PackedBatch, total: float) -> Loss:
        return likelihood_loss(scores.logprobs, *self._tensors(batch.weights), total=total)

    def _update(self, terms: Sequence[_Term], chosen: Sequence[Sequence[int]]) -> list[StepStats]:
        """One optimizer update on the chosen samples of each term; empty where the first has no weight.

        All terms are divided by the weight of the first.
        """
        picked = [[i for i in mine if t.weights[i].any()] for t, mine in zip(terms, chosen, strict=True)]
        weight = [
            sum(float(t.weights[i].sum(dtype=np.float64)) for i in mine)
            for t, mine in zip(terms, picked, strict=True)
        ]
        totals = all_sum(*weight)
        if totals[0] == 0:
            return []
        rounds: list[tuple[int, PackedBatch]] = []
        for k, (term, mine) in enumerate(zip(terms, picked, strict=True)):
            parts = [
                _pick(term, [mine[i] for i in part])
                for part in split_by_tokens([len(term.samples[i]) for i in mine], self._budget)
            ]
            padding = all_max(len(parts)) - len(parts)  # every process goes as many rounds
            rounds += [(k, part) for part in [*parts, *[DUMMY] * padding]]
        share, sums = world()[1], [defaultdict[str, float](float) for _ in terms]
        for done, (k, batch) in enumerate(rounds, 1):
            self._engine.set_gradient_accumulation_boundary(done == len(rounds))
            loss = terms[k].loss(self._engine(batch), batch, totals[0])
            if not torch.isfinite(loss.value):
                raise LearnerError(
                    f"The loss is {loss.value.item()} at update {self.updates}: the weights have diverged. "
                    "Resume from a checkpoint with a lower learning rate."
                )
            self._engine.backward(loss.value * terms[k].coef * share)  # DeepSpeed averages over processes
            sums[k]["loss"] += float(loss.value.detach()) * totals[0]
            for name, value in loss.sums.items():
                sums[k][name] += float(value)
        lr = self._schedule(self.updates)
        for group in self._engine.optimizer.param_groups:
            group["lr"] = lr
        norm = self._apply()
        self.updates += 1
        stats = StepStats(grad_norm=norm, lr=lr)
        for term, total, found in zip(terms, totals, sums, strict=True):
            if found:
                reduced = zip(found, all_sum(*found.values()), strict=True)
                stats |= {f"{term.name}{name}": value / total for name, value in reduced}
                if term.name:
                    stats[f"{term.name}tokens"] = total
        return [stats]

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

    def _tensors(self, *arrays: Floats | Ints) -> list[Tensor]:
        device = next(self.model.parameters()).device
        return [torch.from_numpy(array).to(device) for array in arrays]


def _pick(term: _Term, chosen: Sequence[int]) -> PackedBatch:
    def of(arrays: Sequence[Floats] | None) -> list[Floats] | None:
        return None if arrays is None else [arrays[i] for i in chosen]

    critic = term.criticism
    return pack(
        [term.samples[i] for i in chosen], [term.weights[i] for i in chosen], of(term.advantages),
        of(term.reference), *(() if critic is None else (of(critic.values), of(critic.returns))),
    )  # fmt: skip


def _mean(history: Sequence[StepStats]) -> StepStats:
    """Means over those updates that have the stat."""
    names = dict.fromkeys(name for stats in history for name in stats)
    return StepStats({n: float(np.mean([stats[n] for stats in history if n in stats])) for n in names})
