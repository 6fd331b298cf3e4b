"""How many actions a second pass through all stages when a number of episodes is under way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, isfinite

from mappa_rl.planning.stage import Stage

ROUNDS = 200
"""Halvings of the interval that holds the rate: enough for every bit of a float."""


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

    alone = at(0.0).action_s
    high = in_flight / alone if alone else inf
    if others:
        high = min(high, *(stage.most / others for stage in stages))
    if not isfinite(high):
        return at(0.0)
    low = 0.0
    for _ in range(ROUNDS):
        middle = (low + high) / 2
        if not low < middle < high:
            break
        if middle * at(middle).action_s < in_flight:
            low = middle
        else:
            high = middle
    return at(low)
