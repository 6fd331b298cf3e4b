"""Backward rewards: an action's score, minus its fraction of a failure or plus its fraction of a success.

With the score p_i (0-10) of action i, its fraction b_i of the blame or c_i of the success (``Attribution``),
and the outcome's score R in [0, 1],

    failure:  r_i = p_i - 10 lambda b_i (1 - R)        success:  r_i = p_i + 10 lambda c_i R

clipped to 0-10. The end of the episode can reveal what the coach overlooked in an action.
"""

from __future__ import annotations

from mappa_env.errors import OptionError
from mappa_env.shaping.process import Process
from mappa_env.types import Trajectory


class Backward:
    """Needs the attribution of the whole episode, so every reward is pending until the end.

    An action without a valid score has no reward, nor does a suspect of a failure that could not be
    attributed. After a sandbox failure no action has a reward.
    """

    name = "backward"
    immediate = False
    traces = True

    def __init__(self, weight: float = 0.5) -> None:
        """``weight``: lambda, in [0, 1]. Raises OptionError outside of it."""
        if isinstance(weight, bool) or not isinstance(weight, (int, float)) or not 0 <= weight <= 1:
            raise OptionError(f"weight={weight!r} of the shaping 'backward' must be between 0 and 1.")
        self._weight = float(weight)
        self._process = Process()

    def rewards(self, trajectory: Trajectory) -> list[tuple[float, bool]]:
        """The rewards of a finished episode with its attribution."""
        found, outcome = trajectory.attribution, trajectory.outcome
        assert outcome is not None, "the episode is not over"
        assert found is not None, "the trajectory has no attribution"
        if outcome.status == "unavailable":
            return [(0.0, False)] * len(trajectory.actions)
        factor = -(1 - outcome.score) if found.failed else outcome.score
        rewards = []
        for step, (reward, valid) in enumerate(self._process.rewards(trajectory)):
            if not found.fractions:
                rewards.append((0.0, False) if step in found.suspects or not valid else (reward, True))
                continue
            reward += 10.0 * self._weight * found.fractions[step] * factor
            rewards.append((min(max(reward, 0.0), 10.0), True) if valid else (0.0, False))
        return rewards
