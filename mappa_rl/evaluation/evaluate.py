"""Held-out evaluation: the same tasks and seeds before and after, so that differences are paired."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from mappa_env.types import Trajectory
from mappa_rl.errors import RunError
from mappa_rl.rollout.sampling import Sampling
from mappa_rl.rollout.types import Job, RolloutWorker
from mappa_rl.seeds import numbered
from mappa_rl.types import Rollout


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

    ``on_done`` receives the number of finished episodes. Raises RunError if an episode failed because of the
    infrastructure: an evaluation must be complete.
    """
    jobs = [Job(numbered(seed, i), task_id) for i, task_id in enumerate(task_ids)]
    done = worker.collect(jobs, sampling, on_done=on_done)
    ended = [rollout.ended for rollout in done.rollouts]
    if "failed" in ended:
        reason = done.reasons[ended.index("failed")].rstrip(". ")
        raise RunError(
            f"{ended.count('failed')} of {len(jobs)} evaluation episodes failed; an evaluation must be "
            f"complete. The first failure: {reason}. Fix the cause, then resume the run with --resume."
        )
    return Evaluation(sampling.temperature, tuple(done.rollouts), tuple(done.trajectories))
