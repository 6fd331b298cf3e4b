"""What a trace says about the learner's side of an episode."""

from __future__ import annotations

from collections.abc import Mapping

from mappa_env.trace import Learned
from mappa_rl.types import Rollout

Earned = dict[int, tuple[float | None, float | None]]
"""Step of an episode -> return and advantage of the action there; None: unknown."""


def learned(rollout: Rollout, earned: Mapping[int, tuple[float | None, float | None]]) -> list[Learned]:
    """One row per turn of ``rollout``: tokens, rewards as the learner took them, and ``earned``."""
    found = []
    for turn in rollout.turns:
        returned, advantage = earned.get(turn.step, (None, None))
        found.append(
            Learned(
                turn.step,
                turn.policy,
                turn.version,
                turn.reward,
                turn.valid,
                returned,
                advantage,
                turn.stopped,
                tuple(turn.context_ids),
                tuple(turn.action_ids),
                tuple(turn.logprobs),
            )
        )
    return found
