"""The nouns of rollouts: jobs, finished episodes, what a step collects, and the worker that collects it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol, Self

from mappa_env.types import Trajectory
from mappa_rl.types import Rollout

if TYPE_CHECKING:
    from mappa_rl.rollout.sampling import Sampling


@dataclass(frozen=True, slots=True)
class Job:
    """One episode to run: ``task_id`` None draws a task with ``seed``."""

    seed: int
    task_id: str | None = None


@dataclass(frozen=True, slots=True)
class Finished:
    """The result of a job after ``tries`` attempts. ``reason``: why it is masked; empty: it is not."""

    rollout: Rollout
    trajectory: Trajectory
    tries: int = 1
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Seconds:
    """Wall time of a collection: ``total``, of it ``generate`` (at least one request under way), ``wait``."""

    generate: float = 0.0
    wait: float = 0.0
    total: float = 0.0

    def __add__(self, other: Seconds) -> Seconds:
        return Seconds(self.generate + other.generate, self.wait + other.wait, self.total + other.total)


@dataclass(frozen=True, slots=True)
class Collected:
    """Finished episodes in the order of their jobs, and what they cost.

    ``tokens``: number of sampled tokens. ``stats``: further metrics by name. ``reasons``: why each episode is
    masked (empty: it is not); an empty sequence: none is. ``replaced``: episodes that others stand in for;
    what the episodes cost includes theirs.
    """

    rollouts: Sequence[Rollout]
    trajectories: Sequence[Trajectory]
    tokens: int = 0
    seconds: Seconds = Seconds()
    stats: Mapping[str, float] = field(default_factory=dict)
    reasons: Sequence[str] = ()
    replaced: Collected | None = None

    @property
    def played(self) -> Collected:
        """All episodes, with those that were replaced at the end."""
        if self.replaced is None:
            return self
        return replace(
            self,
            rollouts=[*self.rollouts, *self.replaced.rollouts],
            trajectories=[*self.trajectories, *self.replaced.trajectories],
            reasons=[*self.reasons, *self.replaced.reasons],
            replaced=None,
        )


class RolloutWorker(Protocol):
    """Runs jobs on environments of one task set: ``LockstepRollout`` or ``AsyncRollout``."""

    @property
    def task_ids(self) -> Sequence[str]:
        """The ids of the environment's task set, in its order."""
        ...

    @property
    def families(self) -> dict[str, list[str]]:
        """Task family -> ids of the environment's task set. The first access builds every task once."""
        ...

    @property
    def script(self) -> str | None:
        """Name of the scripted team of the environment's card."""
        ...

    def collect(
        self, jobs: Sequence[Job], sampling: Sampling, *, on_done: Callable[[int], None] | None = None
    ) -> Collected:
        """Run every job to its end. ``on_done`` receives the number of finished jobs.

        An exception of an environment (a defect, not an agent) propagates.
        """
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


def gather(done: Sequence[Finished], seconds: Seconds) -> Collected:
    """Episodes with their metrics ``retries`` (attempts beyond the first), ``timed_out`` and ``failed``."""
    rollouts = [each.rollout for each in done]
    ended = [rollout.ended for rollout in rollouts]
    return Collected(
        rollouts,
        [each.trajectory for each in done],
        tokens=sum(len(turn.action_ids) for rollout in rollouts for turn in rollout.turns),
        seconds=seconds,
        stats={
            "retries": float(sum(each.tries - 1 for each in done)),
            "timed_out": float(ended.count("timed_out")),
            "failed": float(ended.count("failed")),
        },
        reasons=[each.reason for each in done],
    )
