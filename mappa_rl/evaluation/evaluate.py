"""Held-out evaluation: the same tasks and seeds before and after, so that differences are paired."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from mappa_env.types import Trajectory
from mappa_rl.errors import RunError
from mappa_rl.rollout.sampling import Sampling
from mappa_rl.rollout.types import Collected, Job, RolloutWorker
from mappa_rl.seeds import numbered
from mappa_rl.types import Rollout

TRIES = 3
"""How often an episode is played whose sandbox is unavailable."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """One pass over a list of tasks: entry ``i`` of every field belongs to task ``i``."""

    temperature: float
    rollouts: tuple[Rollout, ...]
    trajectories: tuple[Trajectory, ...]

    @property
    def success(self) -> list[float]:
        """1.0 where the episode succeeded, else 0.0."""
        return [float(rollout.success) for rollout in self.rollouts]

    @property
    def rate(self) -> float:
        """Fraction of the episodes that succeeded."""
        return sum(self.success) / len(self.rollouts)

    def by_topic(self) -> Mapping[str, float]:
        """Success rate of every topic."""
        topics: dict[str, list[float]] = {}
        for rollout in self.rollouts:
            topics.setdefault(rollout.topic, []).append(float(rollout.success))
        return {topic: sum(values) / len(values) for topic, values in sorted(topics.items())}


def evaluate(
    worker: RolloutWorker,
    task_ids: Sequence[str],
    sampling: Sampling,
    *,
    seed: int,
    on_done: Callable[[int], None] | None = None,
) -> Evaluation:
    """Play one episode per task id. An episode's seed depends only on ``seed`` and its position.

    An episode whose sandbox was unavailable says nothing about its team and is played again. ``on_done``
    receives the number of finished episodes. Raises RunError if the infrastructure failed for good: an
    evaluation must be complete.
    """
    jobs = [Job(numbered(seed, i), task_id) for i, task_id in enumerate(task_ids)]
    done = complete(worker, jobs, sampling, on_done=on_done)
    return Evaluation(sampling.temperature, tuple(done.rollouts), tuple(done.trajectories))


def complete(
    worker: RolloutWorker,
    jobs: Sequence[Job],
    sampling: Sampling,
    *,
    on_done: Callable[[int], None] | None = None,
) -> Collected:
    """Play every job to its end, again if its sandbox was unavailable. Raises RunError: see ``evaluate``."""
    first = done = worker.collect(jobs, sampling, on_done=on_done)
    seconds, rollouts, trajectories = done.seconds, list(done.rollouts), list(done.trajectories)
    failed = _failures(done)
    for _ in range(TRIES - 1):
        again = [i for i in failed if rollouts[i].ended != "failed"]
        if not again:
            break
        done = worker.collect([jobs[i] for i in again], sampling)
        seconds += done.seconds
        for i, rollout, trajectory in zip(again, done.rollouts, done.trajectories, strict=True):
            rollouts[i], trajectories[i] = rollout, trajectory
            del failed[i]
        failed |= {again[n]: reason for n, reason in _failures(done).items()}
    if failed:
        why = failed[min(failed)].rstrip(". ")
        raise RunError(
            f"{len(failed)} of {len(jobs)} evaluation episodes failed; an evaluation must be "
            f"complete. The first failure: {why}. Fix the cause, then resume the training with "
            "--resume, or repeat the command."
        )
    return replace(first, rollouts=rollouts, trajectories=trajectories, seconds=seconds)


def _failures(done: Collected) -> dict[int, str]:
    """Number of an episode that failed because of the infrastructure -> why."""
    found = {}
    for i, (rollout, trajectory) in enumerate(zip(done.rollouts, done.trajectories, strict=True)):
        outcome = trajectory.outcome
        if rollout.ended == "failed":
            found[i] = done.reasons[i]
        elif outcome is not None and outcome.status == "unavailable":
            words = (action.unavailable for action in trajectory.actions)
            found[i] = next((text for text in words if text), outcome.reason)
    return found
