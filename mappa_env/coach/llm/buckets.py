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
"""Seconds of the limit that may be used at once after a pause; more would exceed the server's window."""


class Buckets:
    """Two token buckets, for requests and tokens, served first come, first served. Thread-safe.

    Only the first thread in the queue checks the buckets, again after every ``reconcile``: tokens that calls
    did not use go to waiting threads.
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
        """Wait until one request may be sent; returns (seconds waited, tokens reserved).

        ``expected`` estimates the request's tokens; it is called repeatedly, because every answer improves
        the estimate. Raises Passing if the wait would end after ``until``, CoachStopped if closed.
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

    def reconcile(self, tokens: float) -> None:
        """Charge the ``tokens`` that a call used beyond its reservation; negative: return them."""
        with self._lock:
            if self._limits[1]:
                self._free[1] += tokens * _MINUTE / self._limits[1]
                self._wake()

    def close(self, why: str) -> None:
        """Raise CoachStopped(``why``) in every waiting thread."""
        with self._lock:
            self._closed = why
            for waiting in self._queue:
                waiting.notify()

    def _after(self, tokens: float, now: float) -> list[tuple[bool, float]]:
        """Per bucket: whether it is limited, and when it would be empty after a request of ``tokens``."""
        found = []
        for amount, limit, free in zip((1.0, tokens), self._limits, self._free, strict=True):
            cost = amount * _MINUTE / limit if limit else 0.0
            saved = max(BURST_S, cost)  # a request of more than the burst waits until all of it is free
            found.append((bool(limit), max(free, now - saved) + cost))
        return found

    def _pause(self, tokens: float, now: float) -> float:
        return max(0.0, *(free - now if limited else 0.0 for limited, free in self._after(tokens, now)))

    def _wake(self) -> None:
        if self._queue:
            self._queue[0].notify()
