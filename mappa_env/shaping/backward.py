"""Backward rewards: every action earns its own verdict, less its blame for a failure, or plus its share of a
success.

With the score p_i (0-10) of action i, its share b_i of the blame or c_i of the credit (``Attribution``), and
the outcome's score R in [0, 1],

    failure:  r_i = p_i - 10 lambda b_i (1 - R)        success:  r_i = p_i + 10 lambda c_i R

kept within 0-10. What the coach overlooked in an action, the end of the episode may still show.
"""

from __future__ import annotations

from mappa_env.errors import OptionError
from mappa_env.shaping.process import Process
from mappa_env.types import Outcome, Trajectory, Verdict


class Backward:
    """``step`` pays the verdict; what tracing back changes is in ``credit``.

    An action without a valid verdict has no reward. Neither have the suspects of a failure whose shares could
    not be had, and no action at all where the sandbox failed.
    """

    name = "backward"
    traces = True

    def __init__(self, weight: float = 0.5) -> None:
        """``weight``: lambda."""
        if isinstance(weight, bool) or not isinstance(weight, (int, float)) or not 0 <= weight <= 1:
            raise OptionError(f"weight={weight!r} of the shaping 'backward' must be within 0-1.")
        self._weight = float(weight)
        self._process = Process()

    def step(self, verdict: Verdict, outcome: Outcome | None) -> tuple[float, bool]:
        return self._process.step(verdict, outcome)

    def credit(self, trajectory: Trajectory) -> list[tuple[float, bool]]:
        found, outcome = trajectory.attribution, trajectory.outcome
        assert outcome is not None, "credit is for episodes that are over"
        assert found is not None, "the episode traces back where the shaping asks for it"
        if outcome.status == "unavailable":
            return [(0.0, False)] * len(trajectory.actions)
        worth = -(1 - outcome.score) if found.failed else outcome.score
        paid = []
        for step, (reward, valid) in enumerate(self._process.credit(trajectory)):
            if not found.shares:
                paid.append((0.0, False) if step in found.suspects or not valid else (reward, True))
                continue
            reward += 10.0 * self._weight * found.shares[step] * worth
            paid.append((min(max(reward, 0.0), 10.0), True) if valid else (0.0, False))
        return paid
