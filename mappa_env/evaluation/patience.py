"""How long an evaluation waits for a server that is away."""

from __future__ import annotations

import re
import time

from mappa_env.coach.llm.retries import Retries
from mappa_env.coach.llm.settings import Calls
from mappa_env.coach.llm.wire import Blocked, Late, Passing, Unreachable
from mappa_env.errors import CoachStopped

START_S = 30.0
"""Seconds for a server to take connections, before its first answer."""
IN_A_ROW = 8
"""Episodes that may fail for the same reason, with no answer between them."""
_NUMBERED = re.compile(r"\b(?=\w*\d)(?=\w*[A-Za-z])[\w-]+|\d{4,}")
"""What differs between two reports of one fault: numbers of requests."""


class ServerAway(CoachStopped):
    """A model's server takes no connections, or answers no more."""


class Patience(Retries):
    """Ends an evaluation whose server is away. Thread-safe.

    Until the server has answered, it must take connections within ``START_S`` and the deadline of an answer;
    with ``wait_for_server`` given, within the deadline alone. Later it may be away for that deadline, but
    not while ``IN_A_ROW`` episodes fail for the same reason.
    """

    def __init__(self, settings: Calls) -> None:
        super().__init__()
        waits = settings.wait_for_server and "wait_for_server" in settings.model_fields_set
        self._start_s = settings.deadline_s if waits else min(START_S, settings.deadline_s)
        self._answered = False
        self._away: float | None = None
        """When the server could first not be reached, if it could not be since."""
        self._row, self._reason = 0, ""

    def answered(self) -> None:
        """See ``Retries.answered``."""
        with self._lock:
            self._answered, self._row = True, 0

    def pause(self, failure: Passing, since: float, pause_s: float) -> float:
        """See ``Retries.pause``. Raises ServerAway if nothing has ever been there for too long."""
        pause_s = super().pause(failure, since, pause_s)
        now = time.monotonic()
        with self._lock:
            if not isinstance(failure, Unreachable):
                self._away = None
                return pause_s
            self._away = now if self._away is None else self._away
            away_s = now - self._away
        if self._answered:
            return pause_s
        if away_s >= self._start_s:
            raise _nobody(failure, away_s)
        return min(pause_s, self._start_s - away_s)

    def gave_up(self, failure: Passing) -> Passing:
        """See ``Retries.gave_up``. Raises ServerAway if the server has failed too often."""
        raised = super().gave_up(failure)
        cause = self._last if isinstance(failure, Blocked) and self._last is not None else failure
        if not self._answered and isinstance(cause, Unreachable):
            raise _nobody(cause)
        reason = _NUMBERED.sub("", str(cause))
        with self._lock:
            self._row = self._row + 1 if reason == self._reason else 1
            self._reason = reason
            if self._row < IN_A_ROW:
                return raised
        remedy = (
            "raise --timeout, or lower --max-tokens"
            if isinstance(cause, Late)
            else "see what the server says, and whether its limits allow --concurrency"
        )
        raise ServerAway(
            f"{cause}: {IN_A_ROW} times in a row, with no answer between them, this was so until the "
            f"deadline; {remedy}."
        )


def _nobody(failure: Passing, seconds: float = 0.0) -> ServerAway:
    so_long = f" for {seconds:.0f} s" if seconds >= 1 else ""
    return ServerAway(
        f"{failure}; nothing has answered there{so_long}. Check the address, and start the server first: the "
        "model's option wait_for_server: true waits until deadline_s for one that is starting."
    )
