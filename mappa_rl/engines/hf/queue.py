"""A queue that collects single requests and answers them in batches, on its own thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future

from mappa_rl.engines.base import Generation, Request
from mappa_rl.errors import EngineError

HF_MAX_BATCH = 128
"""Requests in one batch of the hf engine, at most."""

Pending = tuple[Request, "Future[Generation]"]


class RequestQueue:
    """Passes waiting requests to ``generate``, at most ``most`` at a time. The first starts the thread."""

    def __init__(self, generate: Callable[[Sequence[Request]], list[Generation]], most: int) -> None:
        self._generate, self._most = generate, most
        self._pending: list[Pending] = []
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closed = False

    def submit(self, request: Request) -> Future[Generation]:
        """Queue one request and return its future, which holds an ``EngineError`` after ``close``."""
        future: Future[Generation] = Future()
        future.set_running_or_notify_cancel()  # it cannot be cancelled one by one
        with self._changed:
            if self._closed:
                future.set_exception(EngineError("This engine is closed; make another."))
                return future
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="hf-engine", daemon=True)
                self._thread.start()
            self._pending.append((request, future))
            self._changed.notify()
        return future

    def drop(self, version: int) -> None:
        """Answer all waiting requests with ``stopped="abort"`` and no token."""
        with self._changed:
            dropped, self._pending = self._pending, []
        for _, future in dropped:
            future.set_result(Generation((), (), "abort", version))

    def close(self) -> None:
        """End the thread after its current batch. No request may be waiting."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._pending or self._closed)
                if not self._pending:
                    return
                batch, self._pending = self._pending[: self._most], self._pending[self._most :]
            try:
                done = self._generate([request for request, _ in batch])
            except BaseException as error:  # noqa: BLE001  (the one who waits has to hear of it)
                for _, future in batch:
                    future.set_exception(error)
                continue
            for (_, future), generation in zip(batch, done, strict=True):
                future.set_result(generation)
