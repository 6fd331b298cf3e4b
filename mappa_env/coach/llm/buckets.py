"""Rate limits: requests and tokens per minute, as servers count them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from mappa_env.coach.llm.models import Rates

_MINUTE = 60.0
BURST_S = 5.0
"""So many seconds' worth may be spent at once after a pause; more would meet the server's own window."""


class Buckets:
    """Gives out turns in the order of asking. Safe to use from many threads."""

    def __init__(self, rates: Rates, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._limits = (rates.requests, rates.tokens)
        now = clock()
        self._free = [now - BURST_S, now - BURST_S]
        """When the bucket would have been empty: virtual scheduling (ITU-T I.371), one number per bucket."""

    def reserve(self, tokens: float) -> float:
        """Seconds to wait before one request of so many tokens may go."""
        with self._lock:
            now = self._clock()
            for i, amount in enumerate((1.0, tokens)):
                limit = self._limits[i]
                if limit:
                    self._free[i] = max(self._free[i], now - BURST_S) + amount * _MINUTE / limit
            return max(0.0, *(free - now for free in self._free))

    def correct(self, tokens: float) -> None:
        """So many tokens more (or fewer) than were reserved were used."""
        with self._lock:
            if self._limits[1]:
                self._free[1] += tokens * _MINUTE / self._limits[1]
