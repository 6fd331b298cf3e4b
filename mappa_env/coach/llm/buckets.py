"""Rate limits: requests and tokens per minute, as servers count them."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable

from mappa_env.coach.llm.models import Rates
from mappa_env.coach.llm.wire import Passing
from mappa_env.errors import CoachStopped

_MINUTE = 60.0
BURST_S = 5.0
"""So many seconds' worth may be spent at once after a pause; more would meet the server's own window."""


class Buckets:
    """Gives out turns in the order of asking. Safe to use from many threads.

    Only the first in the queue looks at the buckets, and again when a ``correct`` has changed them: what
    calls turn out not to need goes to those who wait already.
    """

    def __init__(self, rates: Rates, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._limits = (rates.requests, rates.tokens)
        now = clock()
        self._free = [now - BURST_S, now - BURST_S]
        """When the bucket would have been empty: virtual scheduling (ITU-T I.371), one number per bucket."""
        self._queue: deque[threading.Condition] = deque()
        self._closed = ""

    def turn(self, expected: Callable[[], float], until: float) -> tuple[float, float]:
        """Wait until one request of so many tokens may go: (seconds waited, tokens reserved).

        ``expected`` is asked again while it waits: more is known when more answers are in.
        Raises Passing where that is not before ``until``, CoachStopped when closed meanwhile.
        """
        began = self._clock()
        mine = threading.Condition(self._lock)
        with self._lock:
            self._queue.append(mine)
            try:
                while True:
                    if self._closed:
                        raise CoachStopped(self._closed)
                    now, tokens = self._clock(), expected()
                    pause = self._pause(tokens, now) if self._queue[0] is mine else 0.0
                    if now + pause >= until:
                        raise Passing(f"the rate limits allow no call for {max(pause, now - began):.0f} s")
                    if self._queue[0] is mine and pause <= 0:
                        self._free = [free for _, free in self._after(tokens, now)]
                        return now - began, tokens
                    mine.wait(pause if self._queue[0] is mine else until - now)
            finally:
                self._queue.remove(mine)
                self._wake()

    def correct(self, tokens: float) -> None:
        """So many tokens more (or fewer) than were reserved were used."""
        with self._lock:
            if self._limits[1]:
                self._free[1] += tokens * _MINUTE / self._limits[1]
                self._wake()

    def close(self, why: str) -> None:
        """Whoever waits gets CoachStopped, saying ``why``."""
        with self._lock:
            self._closed = why
            for waiting in self._queue:
                waiting.notify()

    def _after(self, tokens: float, now: float) -> list[tuple[bool, float]]:
        """Per bucket: whether it is limited, and when it would be empty if such a request went."""
        found = []
        for amount, limit, free in zip((1.0, tokens), self._limits, self._free, strict=True):
            cost = amount * _MINUTE / limit if limit else 0.0
            found.append((bool(limit), max(free, now - BURST_S) + cost))
        return found

    def _pause(self, tokens: float, now: float) -> float:
        return max(0.0, *(free - now if limited else 0.0 for limited, free in self._after(tokens, now)))

    def _wake(self) -> None:
        if self._queue:
            self._queue[0].notify()
