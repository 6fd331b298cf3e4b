"""Outcome rewards: the reward of every action is ten times the outcome's score."""

from __future__ import annotations

from mappa_env.types import Trajectory


class OutcomeOnly:
    """The outcome's score for every action; no rewards without an outcome or after a sandbox failure."""

    name = "outcome"
    immediate = False
    traces = False

    def rewards(self, trajectory: Trajectory) -> list[tuple[float, bool]]:
        """The same reward for every action."""
        outcome, count = trajectory.outcome, len(trajectory.actions)
        if outcome is None or outcome.status == "unavailable":
            return [(0.0, False)] * count
        return [(10.0 * outcome.score, True)] * count
