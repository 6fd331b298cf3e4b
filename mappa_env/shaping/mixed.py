"""Mixed rewards: r = w_p * verdict + w_o * 10 * outcome, with w_p + w_o = 1."""

from __future__ import annotations

import math

from mappa_env.errors import OptionError
from mappa_env.shaping.outcome import OutcomeOnly
from mappa_env.shaping.process import Process
from mappa_env.types import Trajectory


class Mixed:
    """A weighted mean of verdict and outcome. The weights are normalised, so rewards are within 0-10.

    Actions without a valid verdict, and all actions of an episode without an outcome, have no reward.
    """

    name = "mixed"
    immediate = False
    traces = False

    def __init__(self, process_weight: float = 0.5, outcome_weight: float = 0.5) -> None:
        weights = {"process_weight": process_weight, "outcome_weight": outcome_weight}
        for name, weight in weights.items():
            if not isinstance(weight, (int, float)) or not math.isfinite(weight) or weight < 0:
                raise OptionError(f"{name} must be a number >= 0, found {weight!r}.")
        total = process_weight + outcome_weight
        if total <= 0:
            raise OptionError("process_weight and outcome_weight are both 0: one must be positive.")
        self._process_weight, self._outcome_weight = process_weight / total, outcome_weight / total
        self._process, self._outcome = Process(), OutcomeOnly()

    def rewards(self, trajectory: Trajectory) -> list[tuple[float, bool]]:
        """The weighted mean of the process reward and the outcome reward of every action."""
        pairs = zip(self._process.rewards(trajectory), self._outcome.rewards(trajectory), strict=True)
        return [self._mix(process, outcome) for process, outcome in pairs]

    def _mix(self, process: tuple[float, bool], outcome: tuple[float, bool]) -> tuple[float, bool]:
        if not (process[1] and outcome[1]):
            return 0.0, False
        return self._process_weight * process[0] + self._outcome_weight * outcome[0], True
