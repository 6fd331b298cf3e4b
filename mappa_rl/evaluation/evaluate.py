"""Held-out evaluation: the same tasks and seeds before and after, so that differences are paired."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from mappa_env.types import Trajectory
from mappa_rl.errors import RunError
from mappa_rl.rollout import Job, Player
from mappa_rl.sampling import Sampling
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
        return sum(self.success) / len(self.rollouts)

    def by_topic(self) -> Mapping[str, float]:
        """Success rate of every topic."""
        topics: dict[str, list[float]] = {}
        for rollout in self.rollouts:
            topics.setdefault(rollout.topic, []).append(float(rollout.success))
        return {topic: sum(values) / len(values) for topic, values in sorted(topics.items())}


def evaluate(
    collector: Player,
    task_ids: Sequence[str],
    sampling: Sampling,
    *,
    seed: int,
    on_done: Callable[[int], None] | None = None,
) -> Evaluation:
    """Play one episode per task id. Seeds depend on (seed, position) alone."""
    jobs = [Job(seed * 1_000_003 + i, task_id) for i, task_id in enumerate(task_ids)]
    done = collector.collect(jobs, sampling, on_done=on_done)
    ended = [rollout.ended for rollout in done.rollouts]
    if "failed" in ended:
        raise RunError(
            f"{ended.count('failed')} of {len(jobs)} episodes of an evaluation failed; none may be missing"
            f": {done.reasons[ended.index('failed')]} Mend the cause and go on with --resume."
        )
    return Evaluation(sampling.temperature, tuple(done.rollouts), tuple(done.trajectories))


def best_temperature(
    collector: Player,
    task_ids: Sequence[str],
    sampling: Sequence[Sampling],
    *,
    seed: int,
    on_done: Callable[[int], None] | None = None,
) -> tuple[float, Mapping[float, float]]:
    """The temperature with the highest success on ``task_ids`` (ties: the higher one), and all rates.

    Lower temperatures alone sharpen a policy; comparing at the start's own best keeps that from passing for
    learning.
    """
    rates: dict[float, float] = {}
    for one in sampling:
        rates[one.temperature] = evaluate(collector, task_ids, one, seed=seed).rate
        if on_done is not None:
            on_done(len(rates))
    return max(rates, key=lambda t: (rates[t], t)), rates
