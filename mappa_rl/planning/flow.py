"""How many actions a second pass through all stages when a number of episodes is under way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, isfinite, sqrt

from mappa_rl.planning.stage import Stage

ROUNDS = 100
"""Halvings, at least, of the interval that holds the rate: more than any needs."""
EXACT = 1e-14
"""Of the rate, the error at which the search for it ends."""


@dataclass(frozen=True, slots=True)
class Flow:
    """``rate``: actions per second. By stage, seconds per action: ``service``, its own, and ``queue``."""

    rate: float
    service: dict[str, float]
    queue: dict[str, float]

    @property
    def action_s(self) -> float:
        """Seconds from one action of an episode to its next."""
        return sum(self.service.values()) + sum(self.queue.values())


def flow(stages: Sequence[Stage], in_flight: float) -> Flow:
    """The steady state of ``in_flight`` episodes, each with one action under way at a time.

    By Little's law, in_flight = rate x seconds per action, and the seconds rise with the rate: an episode
    meets at every stage the others as an observer from outside would, but not itself (P. Schweitzer, 1979).
    So the rate is at most in_flight / (seconds without any wait) and at most that of the slowest stage.
    """
    others = 1 - 1 / in_flight if in_flight > 1 else 0.0

    def at(rate: float) -> Flow:
        met = others * rate
        service = {stage.name: stage.visits * stage.service(met) for stage in stages}
        return Flow(rate, service, {stage.name: stage.visits * stage.queue(met) for stage in stages})

    alone = sum(stage.passing(0.0) for stage in stages)
    high = in_flight / alone if alone else inf
    if others:
        high = min(high, *(stage.most / others for stage in stages))
    if not isfinite(high):
        return at(0.0)
    return at(_rate(stages, in_flight, others, high))


def _rate(stages: Sequence[Stage], in_flight: float, others: float, limit: float) -> float:
    """The rate, at most ``limit``, by C. Ridders' method (1979): a few rounds, where halving takes fifty."""

    def spare(rate: float) -> float:
        """How much more could pass. It falls at least as fast as the rate rises, so it bounds the error."""
        seconds = sum(stage.passing(others * rate) for stage in stages)
        return in_flight / seconds - rate if seconds else limit

    low, high = 0.0, limit
    above, below = spare(low), spare(high)
    for _ in range(ROUNDS):
        middle = (low + high) / 2
        there = spare(middle)
        scale = sqrt(there * there - above * below)
        if not (low < middle < high and scale) or high - low <= EXACT * high:
            break
        guess = middle + (middle - low) * there / scale
        left = spare(guess)
        if abs(left) <= EXACT * guess:
            return guess
        for rate, more in sorted([(middle, there), (guess, left)]):
            if more > 0 and rate > low:
                low, above = rate, more
            elif more <= 0 and rate < high:
                high, below = rate, more
    return low
