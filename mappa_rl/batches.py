"""Which episodes a training step learns from: its own ones, or those that are ready and fresh enough.

Job ``i`` of a run (from 0) is number ``i mod n`` of step ``i div n + 1``, ``n`` episodes a step. On policy a
step plays exactly its own. With ``rollout.staleness`` k > 0 episodes are played while the learner is at work:
when it has made ``v`` updates, (v + k + 1) n episodes have been started and v n were learned from. A step
first takes all that were started k or more updates ago: at most n by that bound, so there is always room for
them; then those that were over first. So no action is ever older than k updates, and no episode is dropped.
Episodes of one task (``samples_per_task``) go together.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Protocol

from mappa_rl.collector import Collector
from mappa_rl.config import Config
from mappa_rl.finished import Finished, gather
from mappa_rl.jobs import jobs_of
from mappa_rl.policies import Policies
from mappa_rl.rollout import Collected, Job, Player
from mappa_rl.sampling import Sampling, training_sampling
from mappa_rl.stopwatch import WAIT
from mappa_rl.stream import Stream

JobsOf = Callable[[int], Sequence[Job]]
"""The jobs of a training step (from 1)."""


class Batches(Protocol):
    """Gives every training step its episodes. Used from one thread."""

    def take(self, step: int) -> Collected:
        """The episodes that step ``step`` learns from, in the order of their jobs."""
        ...

    def update(self, step: int) -> dict[str, float]:
        """Hand the weights after ``step`` to the engines. Returns metrics."""
        ...

    def state(self) -> dict[str, Any]:
        """Which jobs were learned from, as JSON for a checkpoint."""
        ...


class OwnBatches:
    """Every step plays its own episodes: on policy."""

    def __init__(self, player: Player, policies: Policies, jobs_of: JobsOf, sampling: Sampling) -> None:
        self._player, self._policies, self._jobs_of, self._sampling = player, policies, jobs_of, sampling

    def take(self, step: int) -> Collected:
        return self._player.collect(self._jobs_of(step), self._sampling)

    def update(self, step: int) -> dict[str, float]:
        return self._policies.sync(step)

    def state(self) -> dict[str, Any]:
        return {}


@dataclass(slots=True)
class _Group:
    """Episodes that go together. ``version``: of the weights when they began, the oldest they can have."""

    version: int
    episodes: list[Future[Finished]]


class StreamedBatches:
    """Episodes go on being played while the learner is at work, within ``staleness`` updates."""

    def __init__(
        self,
        stream: Stream,
        policies: Policies,
        jobs_of: JobsOf,
        sampling: Sampling,
        *,
        steps: int,
        per_step: int,
        samples_per_task: int = 1,
        staleness: int = 1,
        update_between_turns: bool = True,
        state: Mapping[str, Any] | None = None,
    ) -> None:
        """``state``: that of a checkpoint; its jobs that were under way are started anew."""
        self._stream, self._policies, self._jobs_of, self._sampling = stream, policies, jobs_of, sampling
        self._size, self._staleness, self._at_once = samples_per_task, staleness, update_between_turns
        self._each, self._steps = per_step // samples_per_task, steps
        self._version = 0
        self._open: dict[int, _Group] = {}
        self._over: list[int] = []
        self._changed = threading.Condition()
        state = state or {"first": 0, "beyond": []}
        self._first: int = state["first"]
        """Groups below this one were all learned from; of the others, those in ``_beyond``."""
        self._beyond: set[int] = set(state["beyond"])
        self._next = self._first

    def take(self, step: int) -> Collected:
        """See ``Batches.take``. Metrics ``staleness`` (mean over actions) and ``staleness_max``:
        updates since the action was sampled."""
        started, generated = time.perf_counter(), self._stream.generating_s
        with self._stream.watch.at(WAIT), self._changed:
            self._changed.wait_for(lambda: self._chosen() is not None)
            chosen = self._chosen()
            assert chosen is not None
            groups = [self._open.pop(index) for index in chosen]
            self._over = [index for index in self._over if index in self._open]
        done = [episode.result() for group in groups for episode in group.episodes]
        self._beyond.update(chosen)
        while self._first in self._beyond:
            self._beyond.remove(self._first)
            self._first += 1
        collected = gather(done, time.perf_counter() - started, self._stream.generating_s - generated)
        ages = [step - 1 - turn.version for rollout in collected.rollouts for turn in rollout.turns]
        if ages:
            collected.stats |= {"staleness": sum(ages) / len(ages), "staleness_max": float(max(ages))}
        return collected

    def update(self, step: int) -> dict[str, float]:
        """See ``Batches.update``; more episodes begin."""
        if self._at_once:
            stats = self._policies.sync(step)
        else:
            with self._stream.watch.at(WAIT), self._stream.drained():
                stats = self._policies.sync(step)
        self._version = step
        most = min(step + self._staleness + 1, self._steps) * self._each
        for index in range(self._next, most):
            if index not in self._beyond:
                self._start(index)
        self._next = max(self._next, most)
        return stats

    def state(self) -> dict[str, Any]:
        return {"first": self._first, "beyond": sorted(self._beyond)}

    def _start(self, index: int) -> None:
        step, at = divmod(index, self._each)
        jobs = self._jobs_of(step + 1)[at * self._size : (at + 1) * self._size]
        group = self._open[index] = _Group(self._version, [])
        group.episodes = [self._stream.submit(job, self._sampling) for job in jobs]
        for episode in group.episodes:
            episode.add_done_callback(lambda _: self._ended(index, group))

    def _ended(self, index: int, group: _Group) -> None:
        with self._changed:
            if index not in self._over and all(episode.done() for episode in group.episodes):
                self._over.append(index)
            self._changed.notify()

    def _chosen(self) -> list[int] | None:
        """The groups that the next step learns from; None: not all of them are over yet."""
        for index in self._over:
            for episode in self._open[index].episodes:
                if (defect := episode.exception()) is not None:
                    raise defect
        due = [i for i, group in self._open.items() if group.version <= self._version - self._staleness]
        if len(self._over) < self._each or not set(due) <= set(self._over):
            return None
        return sorted([*due, *(i for i in self._over if i not in due)][: self._each])


def own_batches(config: Config, policies: Policies, player: Player) -> OwnBatches:
    """Every step's own episodes, whatever ``config.rollout`` says of staleness."""
    return OwnBatches(player, policies, lambda step: jobs_of(config, player, step), training_sampling(config))


def batches_of(
    config: Config, policies: Policies, player: Collector | Stream, state: Mapping[str, Any], done: int
) -> Batches:
    """As ``config.rollout`` says, after ``done`` steps; ``state``: that of their checkpoint, or empty."""
    rollout = config.rollout
    batches: Batches = own_batches(config, policies, player)
    if isinstance(player, Stream):
        batches = StreamedBatches(
            player, policies, lambda step: jobs_of(config, player, step), training_sampling(config),
            steps=config.run.steps, per_step=rollout.episodes_per_step,
            samples_per_task=rollout.samples_per_task, staleness=rollout.staleness,
            update_between_turns=rollout.update_between_turns, state=state or None,
        )  # fmt: skip
    batches.update(done)
    return batches
