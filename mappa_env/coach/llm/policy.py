"""How the coach's server is asked: patiently, within its limits and ours, and never more than is paid for."""

from __future__ import annotations

import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from mappa_env.coach.llm.breaker import Breaker
from mappa_env.coach.llm.buckets import Buckets
from mappa_env.coach.llm.budget import Bill, Budget
from mappa_env.coach.llm.cache import CallCache
from mappa_env.coach.llm.models import Model
from mappa_env.coach.llm.settings import Settings
from mappa_env.coach.llm.wire import Backend, Passing, Reply, Request, Unanswered, Usage
from mappa_env.errors import CoachStopped

_BYTES_PER_TOKEN = 4
"""A usual figure, for the rate limit alone: what it missed is corrected by the server's own count."""


@dataclass(frozen=True, slots=True)
class Answer:
    """``attempts``: calls made; ``latency_s``: of the last one; ``waited_s``: for turns and retries."""

    reply: Reply
    attempts: int
    latency_s: float
    waited_s: float


class Policy:
    """Safe to use from many threads, and shared by all who have the same limits.

    Before try n+1 it waits U(0, min(``cap_s``, ``base_s`` * 2**n)) ("full jitter", Brooker 2015), and at
    least what the server asks for.
    """

    def __init__(
        self, backend: Backend, buckets: Buckets, budget: Budget, breaker: Breaker, settings: Settings
    ) -> None:
        self.breaker, self.budget = breaker, budget
        self._backend, self._buckets, self._settings = backend, buckets, settings
        self._slots = threading.BoundedSemaphore(settings.concurrency)
        self._closed = threading.Event()
        self._lock = threading.Lock()
        self.version = settings.version
        """The one model version that may answer; None until the first answer."""

    def ask(self, request: Request) -> Answer:
        """Ask until there is an answer. Raises Passing when the deadline passes, Unanswered, CoachStopped."""
        end = time.monotonic() + self._settings.deadline_s
        waited, attempts = 0.0, 0
        last: Passing | None = None
        while True:
            try:
                waited += self._turn(request, end)
            except Passing as late:
                (last or late).calls = attempts
                raise last or late from None
            try:
                with self._slots, self.breaker.call(end):
                    attempts += 1
                    asked = time.monotonic()
                    reply = self._call(request, min(self._settings.timeout_s, end - asked))
                return Answer(reply, attempts, time.monotonic() - asked, waited)
            except Unanswered as nothing:
                nothing.calls = attempts
                raise
            except Passing as failure:
                last = failure
                pause = self._pause(max(attempts - 1, 0), failure.wait_s)
            if time.monotonic() + pause >= end:
                last.calls = attempts
                raise last
            self._sleep(pause)
            waited += pause

    def close(self) -> None:
        """Wakes everybody who waits."""
        self._closed.set()
        self._backend.close()

    def _turn(self, request: Request, end: float) -> float:
        """Wait as the rate limits ask; seconds waited. Raises Passing where that is beyond ``end``."""
        pause = self._buckets.reserve(request.size / _BYTES_PER_TOKEN + request.max_output_tokens)
        if time.monotonic() + pause >= end:
            raise Passing(f"the rate limits allow no call for {pause:.0f} s")
        self._sleep(pause)
        return pause

    def _call(self, request: Request, timeout_s: float) -> Reply:
        with self.budget.bill(request) as bill:
            try:
                reply = self._backend.complete(request, timeout_s)
            except Unanswered as nothing:
                self._count(bill, request, nothing.usage)
                self._check_version(nothing.model_version)
                raise
            self._count(bill, request, reply.usage)
            self._check_version(reply.model_version)
            return reply

    def _count(self, bill: Bill, request: Request, usage: Usage) -> None:
        bill.usage = usage
        used = usage.prompt + usage.output + usage.thoughts
        self._buckets.correct(used - (request.size / _BYTES_PER_TOKEN + request.max_output_tokens))

    def _check_version(self, version: str) -> None:
        with self._lock:
            if self.version is None:
                self.version = version or None
            if version and version != self.version:
                raise CoachStopped(
                    f"the coach was {self.version!r} and now answers as {version!r}: scores of two models "
                    f"must not be mixed. Start a new run, with version={version!r} if you want that one."
                )

    def _pause(self, tries: int, asked: float | None) -> float:
        most = min(self._settings.cap_s, self._settings.base_s * 2.0 ** min(tries, 32))
        return max(random.uniform(0.0, most), asked or 0.0)

    def _sleep(self, seconds: float) -> None:
        if self._closed.wait(seconds):
            raise CoachStopped("the coach was closed while a verdict was awaited")


@dataclass(eq=False)
class Shared:
    """What all coaches of one specification in this process have in common."""

    model: Model
    policy: Policy
    cache: CallCache | None
    pool: ThreadPoolExecutor
    """As many threads as calls in flight, started when they are needed."""
