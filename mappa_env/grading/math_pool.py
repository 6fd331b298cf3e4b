"""A small pool of math workers that die rather than hang, shared by all graders of a process. Thread-safe.

A worker has processor time, not wall time: a busy machine costs nobody an answer. Answers wait in two lanes.
Each one first gets ``FAST_S``, ample for honest answers. Those that need more start again in a lane of their
own with ``SLOW_S``, so that honest answers never wait behind hostile ones for long.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import queue
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

WorkerStatus = Literal["ok", "unreadable", "timeout", "error"]

SIZE = 2
"""Workers of the fast lane; the slow lane has one."""
FAST_S = 0.25
"""Seconds of processor time; nearly all honest answers take milliseconds."""
SLOW_S = 1.0
SLOW_WAITING = 4
"""Answers in the slow lane at once. A further one gets no second chance: it has timed out."""
START_S = 60.0
"""Wall-clock seconds until the workers must be ready."""
PATIENCE_S = 60.0
"""Wall-clock seconds after which a worker that has neither answered nor died counts as broken."""
_SCRIPT = Path(__file__).with_name("math_worker.py")


class _LateError(Exception):
    """The worker used up its processor time."""


class _DeadError(Exception):
    """The worker ended for another reason, or is stuck."""


class _Forker:
    """The process that forks workers. It starts in the background; the first worker waits for it."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-I", str(_SCRIPT)],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={},
                start_new_session=True,  # Ctrl-C in a terminal must reach only the host
            )
        self._control = ours
        self._ready = False

    def worker(self) -> _Worker:
        """A new worker. Raises _DeadError."""
        if not self._ready:
            if _line(self._control, b"", START_S)[0] != b"ready":
                raise _DeadError
            self._ready = True
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                socket.send_fds(self._control, [b"+"], [theirs.fileno()])
            except OSError:
                ours.close()
                raise _DeadError from None
        return _Worker(ours)

    def close(self) -> None:
        self._control.close()
        self._process.kill()
        self._process.wait()


class _Worker:
    """One process, which ends when its socket is closed, or when its time is up."""

    def __init__(self, link: socket.socket) -> None:
        self._link = link
        self._buffer = b""

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        start = time.monotonic()
        try:
            self._link.sendall(json.dumps(request).encode() + b"\n")
            line, self._buffer = _line(self._link, self._buffer, PATIENCE_S)
        except (_DeadError, OSError):
            # Processor time never exceeds wall time: a worker that died earlier did not use up its own.
            waited = time.monotonic() - start
            raise (_LateError if request["cpu_s"] <= waited < PATIENCE_S else _DeadError) from None
        reply: dict[str, Any] = json.loads(line)
        return reply

    def close(self) -> None:
        self._link.close()


def _line(link: socket.socket, buffer: bytes, seconds: float) -> tuple[bytes, bytes]:
    """The next line, and what follows it. Raises _DeadError at the end, or after ``seconds``."""
    end = time.monotonic() + seconds
    while b"\n" not in buffer:
        poll = select.poll()  # select() fails on descriptors above 1023
        poll.register(link, select.POLLIN)
        if not poll.poll(max(0.0, end - time.monotonic()) * 1000):
            raise _DeadError
        chunk = link.recv(65536)
        if not chunk:
            raise _DeadError
        buffer += chunk
    line, _, rest = buffer.partition(b"\n")
    return line, rest


class MathPool:
    """Workers, started on demand and replaced when they end."""

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._forker: _Forker | None = None
        self._fast: queue.Queue[_Worker | None] = queue.Queue()
        for _ in range(SIZE):
            self._fast.put(None)
        self._slow: queue.Queue[_Worker | None] = queue.Queue()
        self._slow.put(None)
        self._places = threading.BoundedSemaphore(SLOW_WAITING)

    def compare(self, pairs: Sequence[tuple[str, str]]) -> tuple[WorkerStatus, list[bool]]:
        """Whether the second of each pair equals the first, as mathematics; all False unless ``ok``.

        All pairs of an answer share its time.
        """
        status, reply = self._ask({"pairs": list(pairs), "golds": []})
        if status != "ok":
            return status, [False] * len(pairs)
        found = reply["equal"]
        unread = bool(found) and all(each is None for each in found)
        return ("unreadable" if unread else "ok"), [bool(each) for each in found]

    def readable(self, gold: str) -> bool:
        """Whether an expression can be read at all, within the time of an answer."""
        status, reply = self._ask({"pairs": [], "golds": [gold]})
        return status == "ok" and bool(reply["readable"][0])

    def _ask(self, request: dict[str, Any]) -> tuple[WorkerStatus, dict[str, Any]]:
        status, reply = self._in_lane(self._fast, request | {"cpu_s": FAST_S})
        if status != "timeout" or not self._places.acquire(blocking=False):
            return status, reply
        try:
            return self._in_lane(self._slow, request | {"cpu_s": SLOW_S})
        finally:
            self._places.release()

    def _in_lane(
        self, lane: queue.Queue[_Worker | None], request: dict[str, Any]
    ) -> tuple[WorkerStatus, dict[str, Any]]:
        worker = lane.get()
        try:
            for _ in range(3):  # the system may take the worker and the forker; that costs nobody a result
                try:
                    worker = worker or self._worker()
                    return "ok", worker.ask(request)
                except (_LateError, _DeadError) as failure:
                    if worker is not None:
                        worker.close()
                    worker = None
                    if isinstance(failure, _LateError):
                        return "timeout", {}
            return "error", {}
        finally:
            lane.put(worker)

    def _worker(self) -> _Worker:
        """A new worker, of a new forker if the old one has ended. Raises _DeadError."""
        with self._lock:
            self._forker = self._forker or _Forker()
            try:
                return self._forker.worker()
            except (_DeadError, OSError):
                self._forker.close()
                self._forker = None
                raise _DeadError from None

    def close(self) -> None:
        """End the idle workers; the pool stays usable. Does nothing in a forked child."""
        if os.getpid() != self._pid:
            return
        for lane, size in ((self._fast, SIZE), (self._slow, 1)):
            for _ in range(size):
                try:
                    worker = lane.get_nowait()
                except queue.Empty:
                    break
                if worker is not None:
                    worker.close()
                lane.put(None)
        with self._lock:
            if self._forker is not None:
                self._forker.close()
                self._forker = None


def shared_pool() -> MathPool:
    """This process's pool; a forked child gets its own."""
    return _pool_of(os.getpid())


@functools.cache
def _pool_of(pid: int) -> MathPool:
    pool = MathPool()
    atexit.register(pool.close)
    return pool
