"""Outcome rewards: how the episode ended, ten times its score, is what everybody earns."""

from __future__ import annotations

from mappa_env.types import Outcome, Trajectory, Verdict


class OutcomeOnly:
    """``step`` pays at the closing action only; ``credit`` gives the same reward to every action."""

    name = "outcome"
    traces = False

    def step(self, verdict: Verdict, outcome: Outcome | None) -> tuple[float, bool]:
        return (0.0, True) if outcome is None else paid(outcome)

    def credit(self, trajectory: Trajectory) -> list[tuple[float, bool]]:
        return [paid(trajectory.outcome)] * len(trajectory.actions)


def paid(outcome: Outcome | None) -> tuple[float, bool]:
    """Ten times the score; invalid while there is none or where the sandbox, not the team, failed."""
    if outcome is None or outcome.status == "unavailable":
        return 0.0, False
    return 10.0 * outcome.score, True
