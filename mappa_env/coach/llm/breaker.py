"""The circuit breaker: after many consecutive failures it blocks calls until one test call succeeds."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator

from mappa_env.coach.llm.wire import Blocked, Passing, Rejected, Unanswered


class Breaker:
    """Opens after ``limit`` consecutive failures. ``pause_s`` later one caller may try; the others wait.

    Thread-safe.
    """

    def __init__(self, limit: int = 8, pause_s: float = 10.0) -> None:
        self._limit, self._pause = limit, pause_s
        self._failures = 0
        self._changed = threading.Condition()
        self._again = 0.0
        self._trying = False

    @property
    def closed(self) -> bool:
        """Whether calls are allowed."""
        return self._failures < self._limit

    @contextlib.contextmanager
    def call(self, until: float) -> Iterator[None]:
        """Wait until one call is allowed, then wrap it. Raises Blocked if that is not before ``until``.

        ``until`` is in monotonic seconds. Any answer counts as success, even without a verdict; Passing
        counts as failure; other exceptions count as neither.
        """
        trial = self._enter(until)
        well: bool | None = None
        try:
            yield
            well = True
        except (Rejected, Unanswered):
            well = True
            raise
        except Passing:
            well = False
            raise
        finally:
            self._leave(well, trial)

    def wait(self, seconds: float) -> None:
        """Return when a call would be allowed, at the latest after ``seconds``."""
        until = time.monotonic() + seconds
        with self._changed:
            while not self._open_to_try() and time.monotonic() < until:
                self._sleep(until)

    def _enter(self, until: float) -> bool:
        """True for the one caller that makes the test call."""
        with self._changed:
            while not self._open_to_try():
                if time.monotonic() >= until:
                    raise Blocked(f"the circuit breaker is open after {self._failures} consecutive failures")
                self._sleep(until)
            trial = not self.closed
            self._trying = self._trying or trial
            return trial

    def _open_to_try(self) -> bool:
        return self.closed or (time.monotonic() >= self._again and not self._trying)

    def _sleep(self, until: float) -> None:
        wake = until if self._trying else min(until, self._again)
        self._changed.wait(max(wake - time.monotonic(), 0.0) + 0.001)

    def _leave(self, well: bool | None, trial: bool) -> None:
        with self._changed:
            if trial:
                self._trying = False
            if well:
                self._failures = 0
            elif well is False:
                self._failures += 1
                if not self.closed:
                    self._again = time.monotonic() + self._pause
            self._changed.notify_all()
