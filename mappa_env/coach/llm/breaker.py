"""The circuit breaker: after many failures in a row nobody asks, until one try goes through."""

from __future__ import annotations

import threading
import time

from mappa_env.coach.llm.wire import Passing


class Breaker:
    """Opens after ``limit`` failures in a row; ``pause_s`` later one caller may try, the others wait for it.

    Safe to use from many threads.
    """

    def __init__(self, limit: int = 8, pause_s: float = 10.0) -> None:
        self._limit, self._pause = limit, pause_s
        self._failures = 0
        self._changed = threading.Condition()
        self._again = 0.0
        self._trying = False
        self.opened = 0
        """How often it has opened."""

    @property
    def closed(self) -> bool:
        """Whether calls go through: rollouts wait where it is not."""
        return self._failures < self._limit

    def enter(self, until: float) -> None:
        """Return when a call may be made. Raises Passing when it may not by ``until`` (monotonic seconds)."""
        with self._changed:
            while not self.closed:
                now = time.monotonic()
                if now >= self._again and not self._trying:
                    self._trying = True
                    return
                if now >= until:
                    raise Passing(f"the coach has failed {self._failures} times in a row and is left alone")
                wake = until if self._trying else min(until, self._again)
                self._changed.wait(max(wake - now, 0.0) + 0.001)

    def leave(self, *, well: bool) -> None:
        """Say how a call that was let in has ended."""
        with self._changed:
            self._trying = False
            if well:
                self._failures = 0
            else:
                self._failures += 1
                if self._failures >= self._limit:
                    self.opened += self._failures == self._limit
                    self._again = time.monotonic() + self._pause
            self._changed.notify_all()

    def wait(self, seconds: float) -> bool:
        """Wait until calls go through, at most so long. True when they do."""
        with self._changed:
            return self._changed.wait_for(lambda: self.closed, seconds)
