"""The learner of one policy: scores samples, takes optimizer steps, saves and restores exactly."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from mappa_rl.config import Optim
from mappa_rl.distributed import all_max, all_peak, all_sum, deepspeed_engine, world
from mappa_rl.errors import LearnerError
from mappa_rl.learner.batch import Batch
from mappa_rl.learner.forward import Scorer, score
from mappa_rl.learner.losses import Objective
from mappa_rl.learner.lr_schedule import Schedule
from mappa_rl.learner.minibatches import Minibatches, draw
from mappa_rl.learner.packing import DUMMY, split_by_tokens, split_evenly
from mappa_rl.learner.persistence import Persistence, Position
from mappa_rl.learner.terms import PolicyLoss, Term, Totals, likelihood
from mappa_rl.models.lora import is_adapted, keep_trained
from mappa_rl.types import Demonstrations, Floats, PackedBatch, Sample, StepStats


class Learner:
    """Trains ``model`` in place (dropout off) with AdamW under DeepSpeed.

    With several processes, each calls every method with its own part of the samples, which may be empty;
    counts and gradients are those of all parts together. ``SharedLearner`` divides the samples.

    Args:
        model: A causal language model of transformers, or one with an adapter.
        optim: How to train it, except for the learning rate.
        schedule: The learning rate as a function of ``updates``, the number of optimizer updates.
        temperature: The temperature at which actions were sampled.
        critic: Add a value head, which ``step`` trains too.
        seed: Seed of the order of samples.
    """

    def __init__(
        self,
        model: nn.Module,
        optim: Optim,
        schedule: Schedule,
        *,
        temperature: float,
        critic: bool,
        seed: int,
    ) -> None:
        self.model: Any = model.eval()
        self.updates = 0
        self._optim, self._schedule, self._critic = optim, schedule, critic
        self._random = np.random.default_rng(seed)
        scorer = Scorer(model, optim, temperature=temperature, critic=critic)
        if is_adapted(model):
            hook: Any = scorer.register_state_dict_post_hook
            hook(keep_trained)
        self._engine = deepspeed_engine(
            scorer,
            betas=optim.betas,
            weight_decay=optim.weight_decay,
            grad_clip=optim.grad_clip,
            zero_stage=optim.zero_stage,
            offload=optim.offload,
        )
        self._skipped = 0
        self._files = Persistence(self._engine, model, zero_stage=optim.zero_stage, critic=critic)

    def logprobs(self, samples: Sequence[Sample]) -> list[Floats]:
        """Log-probs [T] of every sample's action tokens under the current weights, 0 elsewhere."""
        budget, together = self._optim.tokens_per_micro_batch, self._optim.zero_stage == 3
        return score(self._engine.module, samples, budget, together=together)

    def values(self, samples: Sequence[Sample]) -> list[Floats]:
        """The critic's values [T] before every sample's action tokens, 0 elsewhere.

        Raises LearnerError without a critic.
        """
        if not self._critic:
            raise LearnerError("This learner has no critic: make it with Learner(..., critic=True).")
        budget, together = self._optim.tokens_per_micro_batch, self._optim.zero_stage == 3
        return score(self._engine.module, samples, budget, together=together, what="values")

    def draw(self, batch: Batch, demonstrations: Demonstrations | None = None) -> Minibatches:
        """The minibatches of the next ``step``: ``optim.epochs`` passes over the samples with a weight."""
        pools = [[i for i, weights in enumerate(batch.weights) if weights.any()]]
        if demonstrations is not None:
            pools.append(list(range(len(demonstrations.samples))))
        return draw(self._random, pools, epochs=self._optim.epochs, minibatches=self._optim.minibatches)

    def step(
        self,
        batch: Batch,
        objective: Objective,
        demonstrations: Demonstrations | None = None,
        minibatches: Minibatches | None = None,
    ) -> StepStats:
        """Update on the batch: ``optim.epochs`` passes with ``optim.minibatches`` updates each.

        ``minibatches``: this process's part of every update; all that ``draw`` returns if it is the only one.
        ``demonstrations`` add ``coef`` times the sum of their tokens' negative log-likelihoods, divided by
        the minibatch's action tokens like the rest of the loss, so a few demonstrations weigh little.

        Returns:
            Means over updates: ``loss``, ``grad_norm`` (before clipping), ``entropy`` (nats per token),
            ``clip_fraction``, ``kl`` (old to new, nats per token), ``kl_loss`` (if the objective has one),
            ``value_loss`` and ``value_clip_fraction`` (with a critic), ``lr``, ``sft_loss`` (nats per
            demonstrated token). ``skipped_updates``: those whose gradient was not finite, which were not
            applied. In the first minibatch, before any update: ``mismatch`` and ``mismatch_max``,
            the mean and the largest absolute difference between learner and old policy per token. Per pass:
            ``tokens``, ``action_tokens``, ``sft_tokens``. Of the step: ``updates``. If no token has a weight,
            nothing changes and the stats are ``{"skipped": 1.0}``.

        Raises:
            LearnerError: More than ``optim.max_skipped_updates`` gradients in a row were not finite, or only
                one of learner and batch has a critic, or several processes draw minibatches, or the objective
                weighs tokens in several updates.
        """
        if minibatches is None:
            if world()[1] > 1:
                raise LearnerError("Several processes share the minibatches of one: use SharedLearner.")
            minibatches = self.draw(batch, demonstrations)
        once = [i for policy, *_ in minibatches.chosen[: self._optim.minibatches] for i in policy]
        total, tokens = all_sum(
            sum(float(batch.weights[i].sum()) for i in once), sum(len(batch.samples[i]) for i in once)
        )
        if total == 0:
            return StepStats(skipped=1.0)
        if objective.weighs and len(minibatches.chosen) > 1:
            raise LearnerError(
                "An objective that weighs tokens is for the only update of a step, "
                f"but there are {len(minibatches.chosen)}."
            )
        loss = self._policy_loss(batch, objective)
        terms = [
            Term(
                batch.samples,
                batch.weights,
                loss,
                batch.advantages,
                reference=batch.reference,
                value_targets=batch.value_targets,
                shares=batch.shares,
            )
        ]
        if demonstrations is not None:
            samples, weights = demonstrations.samples, demonstrations.weights
            terms.append(Term(samples, weights, likelihood, coef=demonstrations.coef, name="sft_"))
        history: list[StepStats] = []
        for chosen in minibatches.chosen:
            history += self._update(terms, chosen)
            loss.updated = bool(history)
        self._random.bit_generator.state = dict(minibatches.random)  # not before: an interrupted step is none
        stats = _mean(history)
        stats["mismatch_max"] = all_peak(loss.mismatch_max)
        stats["action_tokens"], stats["tokens"] = total, tokens
        stats["updates"] = float(len(history))
        stats["skipped_updates"] = sum(each["skipped_updates"] for each in history)
        if "sft_tokens" in stats:
            stats["sft_tokens"] = sum(each.get("sft_tokens", 0.0) for each in history) / self._optim.epochs
        return stats

    def supervised(self, samples: Sequence[Sample], weights: Sequence[Floats]) -> StepStats:
        """One supervised update on the samples; ``weights`` [T] each, >= 0 and 0 on the first token.

        Stats: ``loss`` (weighted mean negative log-likelihood in nats), ``grad_norm``, ``lr``; or
        ``{"skipped": 1.0}`` if no token has a weight.
        """
        history = self._update([Term(samples, weights, likelihood)], [list(range(len(samples)))])
        return history[0] if history else StepStats(skipped=1.0)

    def save(self, folder: Path) -> None:
        """Write trainable weights, optimizer, schedule position and random state. All processes call it."""
        self._files.save(folder, Position(self.updates, self._skipped, self._random.bit_generator.state))

    def load(self, folder: Path) -> None:
        """Restore exactly the learner that was saved. All processes call it. Raises ``CheckpointError``."""
        self.updates, self._skipped, self._random.bit_generator.state = self._files.load(folder)

    def export(self, folder: Path, tokenizer: Any = None) -> None:
        """Write a plain Hugging Face folder, with the tokenizer if given; an adapter is merged.

        All processes call it.
        """
        self._files.export(folder, tokenizer)

    def export_adapter(self, folder: Path) -> None:
        """Write the adapter as a PEFT folder. All processes call it."""
        self._files.export_adapter(folder)

    def _policy_loss(self, batch: Batch, objective: Objective) -> PolicyLoss:
        targets = batch.value_targets
        if (targets is not None) != self._critic:
            raise LearnerError(
                f"This learner has {'a' if self._critic else 'no'} critic, but the batch has "
                f"{'no' if targets is None else 'some'} value targets: use both, or neither."
            )
        return PolicyLoss(objective, None if targets is None else targets.loss)

    def _update(self, terms: Sequence[Term], chosen: Sequence[Sequence[int]]) -> list[StepStats]:
        """One optimizer update on the chosen samples of each term; returns [] if the first has no weight.

        All terms are divided by the totals of the first.
        """
        picked = [[i for i in mine if t.weights[i].any()] for t, mine in zip(terms, chosen, strict=True)]
        own = [term.totals(mine) for term, mine in zip(terms, picked, strict=True)]
        *totals, divisor = all_sum(*(each.weight for each in own), own[0].divisor)
        if totals[0] == 0:
            return []
        sums = self._accumulate(terms, picked, Totals(totals[0], divisor))
        lr = self._schedule(self.updates)
        for group in self._engine.optimizer.param_groups:
            group["lr"] = lr
        self.updates += 1  # from here on the weights may have changed
        norm = self._apply()
        if norm is None:
            self._skipped += 1
            if self._skipped > self._optim.max_skipped_updates:
                raise LearnerError(
                    f"The gradient was not finite in {self._skipped} updates in a row, up to update "
                    f"{self.updates}; none of them was applied. Resume from a checkpoint with a lower "
                    "optim.lr."
                )
            return [StepStats(lr=lr, skipped_updates=1.0)]
        self._skipped = 0
        stats = StepStats(grad_norm=norm, lr=lr, skipped_updates=0.0)
        for term, total, found in zip(terms, totals, sums, strict=True):
            if found:
                reduced = zip(found, all_sum(*found.values()), strict=True)
                stats |= {f"{term.name}{name}": value / total for name, value in reduced}
                if term.name:
                    stats[f"{term.name}tokens"] = total
        return [stats]

    def _accumulate(
        self, terms: Sequence[Term], picked: Sequence[Sequence[int]], totals: Totals
    ) -> list[dict[str, float]]:
        """Add up the gradients of all micro-batches; returns this process's sums of each term's stats."""
        processes = world()[1]
        sums = [defaultdict[str, float](float) for _ in terms]
        rounds = self._rounds(terms, picked)
        for done, (k, batch) in enumerate(rounds, 1):
            self._engine.set_gradient_accumulation_boundary(done == len(rounds))
            loss = terms[k].loss(self._engine(batch), batch, totals)
            # DeepSpeed averages over processes
            self._engine.backward(loss.value * terms[k].coef * processes)
            sums[k]["loss"] += float(loss.value.detach()) * totals.weight
            for name, value in loss.sums.items():
                sums[k][name] += float(value)
        return list(sums)

    def _rounds(
        self, terms: Sequence[Term], picked: Sequence[Sequence[int]]
    ) -> list[tuple[int, PackedBatch]]:
        """Yield micro-batches with the index of their term, equally many of each term in every process."""
        rounds: list[tuple[int, PackedBatch]] = []
        for k, (term, mine) in enumerate(zip(terms, picked, strict=True)):
            lengths, budget = [len(term.samples[i]) for i in mine], self._optim.tokens_per_micro_batch
            parts = split_by_tokens(lengths, budget)
            count = all_max(len(parts))
            if world()[1] > 1:
                parts = split_evenly(lengths, budget, count) or parts
            packs = [term.pack([mine[i] for i in part]) for part in parts]
            rounds += [(k, pack) for pack in [*packs, *[DUMMY] * (count - len(packs))]]
        return rounds

    def _apply(self) -> float | None:
        """Clip, update, and return the gradient's norm before clipping.

        A gradient that is not finite is dropped: None, and neither weights nor optimizer change.
        """
        engine = self._engine
        if self._optim.zero_stage == 0:
            norm = float(nn.utils.clip_grad_norm_(engine.module.parameters(), self._optim.grad_clip))
            if not np.isfinite(norm):
                engine.module.zero_grad(set_to_none=True)
                return None
            engine.step()
            return norm
        engine.step()  # DeepSpeed checks the gradient first
        return None if engine.optimizer.overflow else float(engine.get_global_grad_norm())


def _mean(history: Sequence[StepStats]) -> StepStats:
    """Mean of every stat over the updates that have it."""
    names = dict.fromkeys(name for stats in history for name in stats)
    return StepStats({n: float(np.mean([stats[n] for stats in history if n in stats])) for n in names})
