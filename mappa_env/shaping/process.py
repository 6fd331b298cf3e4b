"""Process rewards: the reward of an action is its verdict's score (MAPPA's default)."""

from __future__ import annotations

from mappa_env.types import Trajectory


class Process:
    """The verdict's score; actions without a valid score have no reward. Suspect scores are never used."""

    name = "process"
    immediate = True
    traces = False

    def rewards(self, trajectory: Trajectory) -> list[tuple[float, bool]]:
        """The valid score of every action."""
        scores = [action.verdict.valid_score for action in trajectory.actions]
        return [(0.0, False) if score is None else (score, True) for score in scores]
