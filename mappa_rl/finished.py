"""What became of jobs, one by one and together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mappa_env.types import Trajectory
from mappa_rl.rollout import Collected
from mappa_rl.types import Rollout


@dataclass(frozen=True, slots=True)
class Finished:
    """What became of a job after so many ``tries``. ``reason``: why it is masked, empty where it is not."""

    rollout: Rollout
    trajectory: Trajectory
    tries: int
    reason: str = ""


def gather(done: Sequence[Finished], total_s: float, generating_s: float) -> Collected:
    """Episodes with their metrics: ``retries`` (tries beyond the first), ``overdue`` and ``failed`` episodes;
    seconds that passed, of these such in which something was generated."""
    rollouts = [each.rollout for each in done]
    ended = [rollout.ended for rollout in rollouts]
    return Collected(
        rollouts,
        [each.trajectory for each in done],
        tokens=sum(len(turn.action_ids) for rollout in rollouts for turn in rollout.turns),
        seconds={"generate": generating_s, "wait": max(total_s - generating_s, 0.0), "total": total_s},
        stats={
            "retries": float(sum(each.tries - 1 for each in done)),
            "overdue": float(ended.count("overdue")),
            "failed": float(ended.count("failed")),
        },
        reasons=[each.reason for each in done],
    )
