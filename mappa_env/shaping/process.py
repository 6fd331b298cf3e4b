"""Process rewards: every action earns its own verdict's score, as it is (MAPPA's default)."""

from __future__ import annotations

from mappa_env.types import Outcome, Trajectory, Verdict


class Process:
    name = "process"
    traces = False

    def step(self, verdict: Verdict, outcome: Outcome | None) -> tuple[float, bool]:
        if verdict.status != "ok" or verdict.score is None:
            return 0.0, False  # a suspect score is recorded, never handed out
        return verdict.score, True

    def credit(self, trajectory: Trajectory) -> list[tuple[float, bool]]:
        return [self.step(action.verdict, trajectory.outcome) for action in trajectory.actions]
