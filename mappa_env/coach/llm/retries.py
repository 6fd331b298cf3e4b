"""What is said and done about calls that fail again and again."""

from __future__ import annotations

import threading
import time
import warnings

from mappa_env.coach.llm.wire import Blocked, Passing
from mappa_env.errors import CoachWarning

SILENT_S = 10.0
"""Seconds for which an answer may be tried again before a line says so."""
EVERY_S = 60.0
"""Least seconds between two such lines about one server."""


class Retries:
    """Says why calls to one server are tried again, but never ends them. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last: Passing | None = None
        self._said = -EVERY_S

    def answered(self) -> None:
        """The server has answered, if only to reject the request."""

    def pause(self, failure: Passing, since: float, pause_s: float) -> float:
        """Seconds to wait after a call that failed. May raise CoachStopped.

        ``since``: when the first call for the same answer began, in monotonic seconds.
        """
        now = time.monotonic()
        with self._lock:
            self._last = failure
            silent = now - since < SILENT_S or now - self._said < EVERY_S
            self._said = self._said if silent else now
        if not silent:
            warnings.warn(f"{failure}; no answer for {now - since:.0f} s.", CoachWarning, stacklevel=2)
        return pause_s

    def gave_up(self, failure: Passing) -> Passing:
        """What to raise where ``failure`` ends the wait for an answer. May raise CoachStopped."""
        if self._last is None or not isinstance(failure, Blocked):
            return failure
        raised = Blocked(f"{self._last}: {failure}")
        raised.calls = failure.calls
        return raised
