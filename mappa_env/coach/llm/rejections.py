"""Whether a server rejects single requests, or every one."""

from __future__ import annotations

import threading

from mappa_env.coach.llm.wire import TOO_LONG, Rejected, Unanswered, Usage
from mappa_env.errors import CoachStopped

PATIENCE = 8
"""Rejections before the first answer after which no request is sent any more."""
_REMEDY = "check the model's name and its options."
COACH = "lower the coach's max_output_tokens, or choose a model with a longer context."
"""The remedy for a coach, whose prompts are the evidence."""


class Rejections:
    """Counts until the first answer. Thread-safe. ``too_long``: what to do where no prompt fits."""

    def __init__(self, too_long: str) -> None:
        self._too_long = f"no prompt fits with the tokens of its answer: {too_long}"
        self._lock = threading.Lock()
        self._seen = 0
        self._answered = self._fits = False

    def answered(self) -> None:
        """The server has answered a request."""
        self._answered = self._fits = True

    def recalled(self) -> None:
        """The model has answered in an earlier launch, so some prompts fit."""
        self._fits = True

    def count(self, no: Rejected) -> None:
        """Raises CoachStopped if ``no`` was one of too many."""
        if self._answered or (no.kind == TOO_LONG and self._fits):
            return
        with self._lock:
            self._seen += 1
            if self._seen < PATIENCE:
                return
        raise CoachStopped(
            f"{no}: the server rejected all of the first {PATIENCE} requests; "
            + (self._too_long if no.kind == TOO_LONG else _REMEDY)
        )

    def unanswered(self, no: Rejected) -> Unanswered:
        """``no`` as an answer without a verdict. Raises CoachStopped if it was one of too many."""
        self.count(no)
        return Unanswered(str(no), Usage(), final=True)
