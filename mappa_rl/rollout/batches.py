"""Which episodes a training step learns from: its own, or those that are finished and fresh enough.

Job ``i`` of a run (from 0) is number ``i mod n`` of step ``i div n + 1``, with ``n`` episodes per step. On
policy a step runs exactly its own. With ``rollout.staleness`` k > 0 episodes run while the learner is busy:
after ``v`` updates, (v + k + 1) n episodes have been started and v n were learned from. A step takes those
that were started first, of equals those that finished first, and leaves a slow one to a later step only where
all that are left can still be learned from in time. So no action is ever older than k updates, and no episode
is dropped. Episodes of one task (``group_size``) stay together. With ``rollout.refill_rounds``, a group that
teaches nothing is played again with another task as soon as it has finished, and keeps its place.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from mappa_rl.config import Config
from mappa_rl.config.rollout import Rollout as RolloutSection
from mappa_rl.rollout.asynchronous import AsyncRollout
from mappa_rl.rollout.jobs import jobs_of
from mappa_rl.rollout.lockstep import LockstepRollout
from mappa_rl.rollout.policies import Policies
from mappa_rl.rollout.refill import Refill, refill_of, refilled
from mappa_rl.rollout.sampling import Sampling, training_sampling
from mappa_rl.rollout.types import Collected, Finished, Job, RolloutWorker, Seconds, gather
from mappa_rl.telemetry.stopwatch import WAIT

JobsOf = Callable[[int], Sequence[Job]]
"""The jobs of a training step (from 1)."""


class Batches(Protocol):
    """Provides the episodes of every training step. Used from one thread."""

    def take(self, step: int) -> Collected:
        """The episodes that step ``step`` learns from, in the order of their jobs."""
        ...

    def update(self, step: int) -> dict[str, float]:
        """Send the weights after ``step`` to the engines. Returns metrics."""
        ...

    def state(self) -> dict[str, Any]:
        """Which jobs were learned from, as JSON-serialisable values for a checkpoint."""
        ...


class OnPolicyBatches:
    """Every step runs its own episodes."""

    def __init__(
        self,
        worker: RolloutWorker,
        policies: Policies,
        jobs_of: JobsOf,
        sampling: Sampling,
        refill: Refill | None = None,
    ) -> None:
        self._worker, self._policies, self._jobs_of, self._sampling = worker, policies, jobs_of, sampling
        self._refill = refill

    def take(self, step: int) -> Collected:
        """See ``Batches.take``."""
        first = self._play(self._jobs_of(step))
        return first if self._refill is None else self._refill.fill(step, first, self._play)

    def _play(self, jobs: Sequence[Job]) -> Collected:
        return self._worker.collect(jobs, self._sampling)

    def update(self, step: int) -> dict[str, float]:
        """See ``Batches.update``."""
        return self._policies.sync(step)

    def state(self) -> dict[str, Any]:
        """Empty: the step says it all."""
        return {}


@dataclass(slots=True)
class _Group:
    """Episodes of one task. ``version`` of the weights at their start: the oldest they can have.

    ``replaced``: the groups that this one stands in for, the first one first.
    """

    version: int
    episodes: list[Future[Finished]]
    replaced: list[list[Finished]] = field(default_factory=list)

    @property
    def is_done(self) -> bool:
        """Whether all of its episodes have ended."""
        return all(episode.done() for episode in self.episodes)


class AsyncBatches:
    """Episodes run while the learner is busy, at most ``rollout.staleness`` updates behind."""

    def __init__(
        self,
        worker: AsyncRollout,
        policies: Policies,
        jobs_of: JobsOf,
        sampling: Sampling,
        *,
        rollout: RolloutSection,
        steps: int,
        refill: Refill | None = None,
    ) -> None:
        """``steps`` of the run in all."""
        self._worker, self._policies, self._jobs_of, self._sampling = worker, policies, jobs_of, sampling
        self._rollout, self._steps, self._refill = rollout, steps, refill
        self._groups_per_step = rollout.episodes_per_step // rollout.group_size
        self._version = 0
        self._open: dict[int, _Group] = {}
        self._done: dict[int, None] = {}
        """Groups that can be learned from, in the order in which they ended."""
        self._changed = threading.Condition()
        self._defect: Exception | None = None
        self._first = self._next = 0
        """All groups below ``_first`` were learned from; of the others, those in ``_beyond``."""
        self._beyond = set[int]()

    def load(self, state: Mapping[str, Any]) -> None:
        """Restore what ``state`` returned, before the first ``update``: groups under way then start again."""
        self._first = self._next = state["first"]
        self._beyond = set(state["beyond"])

    def take(self, step: int) -> Collected:
        """See ``Batches.take``.

        Adds the metrics ``staleness`` (mean over actions) and ``staleness_max``: updates since the action was
        sampled.
        """
        started, generated = time.perf_counter(), self._worker.generating_s
        with self._worker.watch.at(WAIT), self._changed:
            self._changed.wait_for(lambda: self._chosen() is not None)
            chosen = self._chosen()
            assert chosen is not None
            groups = [self._open.pop(index) for index in chosen]
            self._done = {index: None for index in self._done if index in self._open}
        finished = [episode.result() for group in groups for episode in group.episodes]
        self._beyond.update(chosen)
        while self._first in self._beyond:
            self._beyond.remove(self._first)
            self._first += 1
        collected = gather(finished, self._worker.seconds_since(started, generated))
        if self._refill is not None:
            replaced = [gather(each, Seconds()) for group in groups for each in group.replaced]
            rounds = max(len(group.replaced) for group in groups)
            collected = refilled([collected], replaced, [collected, *replaced], rounds)
        frozen = {*self._policies.map.names} - {*self._policies.map.trainable}  # their version stays 0
        ages = [
            step - 1 - turn.version
            for rollout in collected.rollouts
            for turn in rollout.turns
            if not turn.passed and self._policies.map.of(turn.agent) not in frozen
        ]
        if not ages:
            return collected
        staleness = {"staleness": sum(ages) / len(ages), "staleness_max": float(max(ages))}
        return replace(collected, stats={**collected.stats, **staleness})

    def update(self, step: int) -> dict[str, float]:
        """See ``Batches.update``. More episodes start."""
        if self._rollout.update_between_turns:
            stats = self._policies.sync(step)
        else:
            with self._worker.watch.at(WAIT), self._worker.drained():
                stats = self._policies.sync(step)
        self._version = step
        jobs: dict[int, Sequence[Job]] = {}
        end = min(step + self._rollout.staleness + 1, self._steps) * self._groups_per_step
        for index in range(self._next, end):
            if index not in self._beyond:
                self._start(index, jobs)
        self._next = max(self._next, end)
        return stats

    def state(self) -> dict[str, Any]:
        """See ``Batches.state``: ``first`` and ``beyond``, indices of groups of episodes."""
        return {"first": self._first, "beyond": sorted(self._beyond)}

    def _start(self, index: int, jobs: dict[int, Sequence[Job]]) -> None:
        """Submit the jobs of a group; ``jobs`` of a step are made once."""
        step, at = divmod(index, self._groups_per_step)
        size = self._rollout.group_size
        if step not in jobs:
            jobs[step] = self._jobs_of(step + 1)
        self._submit(index, jobs[step][at * size : (at + 1) * size], [])

    def _submit(self, index: int, jobs: Sequence[Job], replaced: list[list[Finished]]) -> None:
        group = self._open[index] = _Group(self._version, [], replaced)
        group.episodes = [self._worker.submit(job, self._sampling) for job in jobs]
        for episode in group.episodes:
            episode.add_done_callback(lambda _: self._on_episode(index, group))

    def _on_episode(self, index: int, group: _Group) -> None:
        """An episode of the group has finished. On a thread of the worker, which drops exceptions."""
        with self._changed:
            try:
                if self._open.get(index) is group and index not in self._done and group.is_done:
                    self._finish(index, group)
            except Exception as defect:  # noqa: BLE001  (``take`` raises it)
                self._defect = defect
            self._changed.notify()

    def _finish(self, index: int, group: _Group) -> None:
        """Replace a group that teaches nothing; any other can be learned from."""
        refill, episodes = self._refill, group.episodes
        complete = not any(episode.cancelled() or episode.exception() for episode in episodes)
        if refill is not None and complete and len(group.replaced) < refill.rounds:
            finished = [episode.result() for episode in episodes]
            if not refill.teaches([each.rollout for each in finished]):
                step, at = divmod(index, self._groups_per_step)
                replaced = [*group.replaced, finished]
                self._submit(index, refill.jobs(step + 1, len(replaced), at), replaced)
                return
        self._done[index] = None

    def _chosen(self) -> list[int] | None:
        """The groups that the next step learns from; None while some of them are under way."""
        if self._defect is not None:
            raise self._defect
        for index in self._done:
            for episode in self._open[index].episodes:
                if (defect := episode.exception()) is not None:
                    raise defect
        count = self._groups_per_step
        if len(self._done) < count:
            return None
        chosen = sorted(self._done, key=lambda index: self._open[index].version)[:count]
        taken = set(chosen)
        left = sorted(group.version for index, group in self._open.items() if index not in taken)
        late = any(
            self._version + 1 + place // count > version + self._rollout.staleness
            for place, version in enumerate(left)
        )
        return None if late else sorted(chosen)


def on_policy_batches(config: Config, policies: Policies, worker: RolloutWorker) -> OnPolicyBatches:
    """Every step's own episodes, whatever ``rollout.staleness`` says."""
    return OnPolicyBatches(
        worker,
        policies,
        lambda step: jobs_of(config, worker, step),
        training_sampling(config),
        refill_of(config, policies.map, worker),
    )


def batches_of(
    config: Config,
    policies: Policies,
    worker: LockstepRollout | AsyncRollout,
    state: Mapping[str, Any],
    done: int,
) -> Batches:
    """The batches that ``config.rollout`` asks for, after ``done`` steps.

    ``state``: ``Batches.state`` at the last checkpoint, or empty.
    """
    batches: Batches
    if isinstance(worker, AsyncRollout):
        batches = started = AsyncBatches(
            worker,
            policies,
            lambda step: jobs_of(config, worker, step),
            training_sampling(config),
            rollout=config.rollout,
            steps=config.run.steps,
            refill=refill_of(config, policies.map, worker),
        )
        # A run whose steps so far were played on the lockstep schedule has no state.
        groups = config.rollout.episodes_per_step // config.rollout.group_size
        started.load(state or {"first": done * groups, "beyond": []})
    else:
        batches = on_policy_batches(config, policies, worker)
    batches.update(done)
    return batches
