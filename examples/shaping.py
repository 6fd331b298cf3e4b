"""mappa-rl train demo env.shaping=examples/shaping.py:Closer"""

from mappa_env.shaping.outcome import OutcomeOnly
from mappa_env.shaping.process import Process
from mappa_env.types import Trajectory


class Closer:
    """Every action gets its verdict's score, but the closing action gets ``weight`` times the outcome."""

    name = "closer"
    immediate = False  # the closing action's reward is pending until the episode is over
    traces = False

    def __init__(self, weight: float = 1.0) -> None:
        self.weight = weight

    def rewards(self, trajectory: Trajectory) -> list[tuple[float, bool]]:
        reward, valid = OutcomeOnly().rewards(trajectory)[-1]
        return [*Process().rewards(trajectory)[:-1], (self.weight * reward, valid)]
