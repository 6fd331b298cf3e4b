"""One attempt at a job, the deadlines of the attempts under way, and the time that engines are busy."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field

from mappa_rl.engines.base import Generation
from mappa_rl.rollout.episode_runner import EpisodeRunner
from mappa_rl.rollout.sampling import Sampling
from mappa_rl.rollout.types import Finished, Job


@dataclass(slots=True, eq=False)
class Attempt:
    """One attempt at a job, the ``number``-th (from 1).

    ``finished`` is the job's future, shared by its attempts. ``runner`` is None before the environment is
    there, ``generation`` before the first request.
    """

    job: Job
    sampling: Sampling
    finished: Future[Finished]
    number: int = 1
    runner: EpisodeRunner | None = None
    generation: Future[Generation] | None = field(default=None, repr=False)

    @property
    def is_generating(self) -> bool:
        """Whether a request of this attempt is under way."""
        return self.generation is not None and not self.generation.done()

    def next(self) -> Attempt:
        """A fresh attempt at the same job."""
        return Attempt(self.job, self.sampling, self.finished, self.number + 1)


class Deadlines:
    """Calls ``on_timeout`` from a thread of its own, ``limit_s`` seconds after an attempt's ``start``."""

    def __init__(self, limit_s: float, on_timeout: Callable[[Attempt], None]) -> None:
        """``limit_s``: 0 means no limit, and then no thread."""
        self._limit_s, self._on_timeout = limit_s, on_timeout
        self._due: dict[Attempt, float] = {}
        self._changed = threading.Condition()
        self._closed = False
        self._thread: threading.Thread | None = None
        if limit_s:
            self._thread = threading.Thread(target=self._watch, name="deadlines", daemon=True)
            self._thread.start()

    def start(self, attempt: Attempt) -> None:
        """Start an attempt's time."""
        if self._thread is not None:
            with self._changed:
                self._due[attempt] = time.monotonic() + self._limit_s
                self._changed.notify()

    def stop(self, attempt: Attempt) -> None:
        """Forget an attempt that is over."""
        with self._changed:
            self._due.pop(attempt, None)

    def close(self) -> None:
        """End the thread; call it without a lock that ``on_timeout`` takes."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()

    def _watch(self) -> None:
        while True:
            with self._changed:
                if self._closed:
                    return
                now = time.monotonic()
                late = [attempt for attempt, due in self._due.items() if due <= now]
                for attempt in late:
                    del self._due[attempt]
                if not late:
                    first = min(self._due.values(), default=None)
                    self._changed.wait(None if first is None else first - now)
            for attempt in late:
                self._on_timeout(attempt)


class GenerationClock:
    """Adds up the seconds in which at least one request is under way. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests, self._since, self._seconds = 0, 0.0, 0.0

    @property
    def seconds(self) -> float:
        """Seconds so far, those of the requests under way included."""
        with self._lock:
            return self._seconds + (time.perf_counter() - self._since if self._requests else 0.0)

    def begin(self) -> None:
        """A request is under way."""
        with self._lock:
            if not self._requests:
                self._since = time.perf_counter()
            self._requests += 1

    def end(self) -> None:
        """A request is answered."""
        with self._lock:
            self._requests -= 1
            if not self._requests:
                self._seconds += time.perf_counter() - self._since
