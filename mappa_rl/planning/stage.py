"""A part of an action's way: how long it takes alone, and how many actions a second it serves at most."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf


@dataclass(frozen=True, slots=True)
class Stage:
    """Generation, the environment's process, the sandbox or the coach.

    Attributes:
        name: What predictions call it.
        seconds: Of one action that is alone there; at least 0.
        capacity: Actions per second that all its places serve together; ``inf``: no limit.
        growth: Seconds by which each further action that is there at the same time prolongs all of them;
            an engine decodes a batch more slowly than one request.
        visits: How often an episode waits for it, per action. Verdicts that are asked in the background are
            waited for once an episode: 1 / actions.
        spread: Standard deviation of an action's seconds, as a fraction of their mean.
    """

    name: str
    seconds: float
    capacity: float = inf
    growth: float = 0.0
    visits: float = 1.0
    spread: float = 0.0

    @property
    def most(self) -> float:
        """Actions per second that it serves at most."""
        return min(self.capacity, 1 / self.growth if self.growth else inf)

    def service(self, rate: float) -> float:
        """Seconds of an action's own when ``rate`` actions arrive in a second; ``inf`` from ``most`` on."""
        alone = 1 - rate * self.growth
        return self.seconds / alone if rate < self.capacity and alone > 0 else inf

    def queue(self, rate: float) -> float:
        """Seconds that it waits before, when ``rate`` actions arrive in a second; ``inf`` from ``most`` on.

        The places of a stage count as one that is as fast as all of them together (A. Seidmann et al., 1987),
        and arrivals as random.
        """
        busy = rate / self.capacity
        return busy / (1 - busy) / self.capacity if busy < 1 and rate * self.growth < 1 else inf

    def passing(self, rate: float) -> float:
        """Seconds of an action there, its own and in the queue, over all visits."""
        return self.visits * (self.service(rate) + self.queue(rate))

    def with_more(self, factor: float) -> Stage:
        """The stage with ``factor`` times its places."""
        return replace(self, capacity=self.capacity * factor, growth=self.growth / factor)
