"""A thread that works through jobs in order, off the path of whoever submits them."""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Callable

Job = Callable[[], None]


class Background:
    """Runs jobs one after another on a thread of its own, at most ``most`` of them waiting.

    An exception of a job surfaces in the next call; later jobs are dropped then. What was submitted is done
    before the interpreter exits, unless the process is killed.
    """

    def __init__(self, name: str, most: int) -> None:
        self._queue = _Queue(most)
        self._thread = threading.Thread(target=self._queue.work, name=name, daemon=True)
        self._thread.start()
        # At exit daemon threads still run while finalizers are called.
        self._finish = weakref.finalize(self, self._queue.end)

    def submit(self, job: Job) -> None:
        """Queue a job; waits while the queue is full. Raises what an earlier job raised."""
        self._queue.put(job)

    def drain(self) -> None:
        """Wait until every job is done. Raises what one of them raised."""
        self._queue.drain()

    def close(self) -> None:
        """As ``drain``, and end the thread. May be called twice."""
        if self._finish.detach() is None:
            return
        try:
            self._queue.drain()
        finally:
            self._queue.end()
            self._thread.join()


class _Queue:
    """The jobs that wait, and the one under way; shared by a ``Background`` and its thread."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._jobs: deque[Job] = deque()
        self._busy = self._ended = False
        self._error: BaseException | None = None
        self._lock = threading.Lock()
        self._more, self._less = threading.Condition(self._lock), threading.Condition(self._lock)

    def put(self, job: Job) -> None:
        with self._lock:
            while len(self._jobs) >= self._most and self._error is None:
                self._less.wait()
            self._raise()
            self._jobs.append(job)
            if not self._busy:
                self._more.notify()

    def drain(self) -> None:
        with self._lock:
            while (self._jobs or self._busy) and self._error is None:
                self._less.wait()
            self._raise()

    def end(self) -> None:
        """Do what is left, then stop."""
        with self._lock:
            while (self._jobs or self._busy) and self._error is None:
                self._less.wait()
            self._ended = True
            self._more.notify()

    def work(self) -> None:
        while (job := self._next()) is not None:
            try:
                job()
            except BaseException as error:  # noqa: BLE001  (the next call of the owner raises it)
                with self._lock:
                    self._error = error
                    self._jobs.clear()

    def _next(self) -> Job | None:
        """The next job, once there is one; None: stop."""
        with self._lock:
            self._busy = False
            self._less.notify_all()
            while not self._jobs:
                if self._ended:
                    return None
                self._more.wait()
            self._busy = True
            return self._jobs.popleft()

    def _raise(self) -> None:
        if self._error is not None:
            raise self._error
