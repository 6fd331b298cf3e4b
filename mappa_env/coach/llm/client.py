"""Retries, rate limits and budget of calls to a model's server."""

from __future__ import annotations

import random
import threading
import time
from dataclasses import dataclass

from mappa_env.coach.llm.breaker import Breaker
from mappa_env.coach.llm.buckets import Buckets
from mappa_env.coach.llm.budget import Bill, Budget
from mappa_env.coach.llm.retries import Retries
from mappa_env.coach.llm.settings import Calls
from mappa_env.coach.llm.wire import (
    Backend,
    Late,
    Passing,
    Rejected,
    Reply,
    Request,
    Unanswered,
    Unreachable,
    Usage,
)
from mappa_env.errors import CoachStopped

BYTES_PER_TOKEN = 4
"""A typical value, used for the rate limit only: the server's own count replaces the estimate."""
_CLOSED = "the client was closed while a call was waiting"


@dataclass(frozen=True, slots=True)
class Answer:
    """A reply and its cost. ``latency_s``: of the last call; ``waited_s``: for rate limits and retries."""

    reply: Reply
    attempts: int
    latency_s: float
    waited_s: float


class Client:
    """Calls a server with retries. Thread-safe; coaches with the same limits share one.

    Before try n+1 it waits U(0, min(``cap_s``, ``base_s`` * 2**n)) ("full jitter", Brooker 2015), and at
    least as long as the server asks for. After CoachStopped it sends nothing more: every call raises it.
    ``retries``: what is said and done about failures; by default they are said, and nothing else.
    """

    def __init__(
        self,
        backend: Backend,
        buckets: Buckets,
        budget: Budget,
        breaker: Breaker,
        settings: Calls,
        retries: Retries | None = None,
    ) -> None:
        self.breaker, self.budget = breaker, budget
        self._backend, self._buckets, self._settings = backend, buckets, settings
        self._retries = retries or Retries()
        self._slots = threading.BoundedSemaphore(settings.concurrency)
        self._stopped = threading.Event()
        self._why = ""
        self._lock = threading.Lock()
        self._counted, self._beyond = 1, float(settings.max_output_tokens)
        """Calls, and the sum of their tokens beyond those estimated from the prompt's size."""
        self.version = settings.version
        """The one model version that may answer; None until the first answer."""

    def ask(self, request: Request) -> Answer:
        """Ask until there is an answer.

        Raises Passing at the deadline, Rejected, Unanswered, CoachStopped.
        """
        try:
            return self._ask(request)
        except CoachStopped as stop:
            self._stop(str(stop))
            raise

    def close(self) -> None:
        """Wake every waiting thread with CoachStopped, and close the connection."""
        self._stop(_CLOSED)
        self._backend.close()

    def _ask(self, request: Request) -> Answer:
        end = time.monotonic() + self._settings.deadline_s
        waited, attempts = 0.0, 0
        since: float | None = None
        last: Passing | None = None
        while True:
            before, asked = attempts, time.monotonic()
            try:
                late_s, reserved = self._buckets.turn(lambda: self._expected(request), end)
                waited += late_s
                with self._slots, self.budget.bill(request, end) as bill, self.breaker.call(end):
                    self._sleep(0)  # raises if another thread has stopped the coach meanwhile
                    attempts += 1
                    asked = time.monotonic()
                    reply = self._call(request, end, bill, reserved)
                self._retries.answered()
                return Answer(reply, attempts, time.monotonic() - asked, waited)
            except Unanswered as nothing:
                self._retries.answered()
                nothing.calls, nothing.latency_s = attempts, time.monotonic() - asked
                raise
            except Rejected as no:
                self._retries.answered()
                no.calls = attempts
                raise
            except Passing as failure:
                late = attempts == before  # no call was made
                # the deadline cut this call short: what went wrong before says more
                cut = isinstance(failure, Late) and end - asked < self._settings.timeout_s
                last = last if (late or cut) and last is not None else failure
                last.calls = attempts
                over = late or (isinstance(failure, Unreachable) and not self._settings.wait_for_server)
                pause = self._pause(max(attempts - 1, 0), failure.wait_s)
                if not late:
                    since = asked if since is None else since
                    pause = self._retries.pause(last, since, pause)
            if over or time.monotonic() + pause >= end:
                raise self._retries.gave_up(last)
            self._sleep(pause)
            waited += pause

    def _expected(self, request: Request) -> float:
        """Tokens that a call is likely to use, for the rate limit: estimated from earlier calls."""
        with self._lock:
            return max(request.size / BYTES_PER_TOKEN + self._beyond / self._counted, 1.0)

    def _call(self, request: Request, end: float, bill: Bill, reserved: float) -> Reply:
        self.budget.send(bill)
        timeout_s = min(self._settings.timeout_s, max(end - time.monotonic(), 0.001))
        try:
            reply = self._backend.complete(request, timeout_s)
        except Unanswered as nothing:
            self._count(bill, request, reserved, nothing.usage)
            self._check_version(nothing.model_version)
            raise
        except Rejected:
            bill.usage = Usage()
            raise
        except Passing as failure:
            if not failure.billed:
                bill.usage = Usage()
            raise
        self._count(bill, request, reserved, reply.usage)
        self._check_version(reply.model_version)
        return reply

    def _count(self, bill: Bill, request: Request, reserved: float, usage: Usage) -> None:
        if not usage.known:  # the most is booked, and the rate limit keeps its estimate
            return
        bill.usage = usage
        used = usage.prompt + usage.output + usage.thoughts
        self._buckets.reconcile(used - reserved)
        with self._lock:
            self._counted += 1
            self._beyond += used - request.size / BYTES_PER_TOKEN

    def _check_version(self, version: str) -> None:
        with self._lock:
            if self.version is None:
                self.version = version or None
            if version and version != self.version:
                raise CoachStopped(
                    f"the model was {self.version!r} and now answers as {version!r}: a run must not mix the "
                    f"scores of two models. Start a new run, with version={version!r} to require the new one."
                )

    def _pause(self, tries: int, asked: float | None) -> float:
        most = min(self._settings.cap_s, self._settings.base_s * 2.0 ** min(tries, 32))
        return max(random.uniform(0.0, most), asked or 0.0)

    def _sleep(self, seconds: float) -> None:
        if self._stopped.wait(seconds):
            raise CoachStopped(self._why)

    def _stop(self, why: str) -> None:
        with self._lock:
            self._why = self._why or why
        self._stopped.set()
        self._buckets.close(self._why)
