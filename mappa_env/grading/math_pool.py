"""A small pool of math workers that die rather than hang, shared by all graders of a process. Thread-safe.

An answer has ``STEPS_S[-1]`` seconds of processor time. Since it is hostile text that may use them up, it
first gets the first of ``STEPS_S``. One that needs more starts again in the next lane, which has workers of
its own, and so on. What holds:

- An answer is judged alike beside any number of others. Each lane takes answers in the order in which they
  come, none is turned away, and the caller waits; so at most as many wait as there are callers. Time is the
  worker's processor time: only an answer that needs nearly all of the last step can be judged either way, as
  processors slow one another. The limits in wall-clock time, ``START_S`` and ``PATIENCE_S``, are for workers
  that are broken.
- Before an answer that a lane's step suffices for, each lane up to that one runs only answers that came
  before it, each for the lane's step, in ``WORKERS`` workers. An honest answer that takes less than the first
  step so waits at most (hostile answers ahead) x ``STEPS_S[0]`` / ``WORKERS`` in processor time, and the
  milliseconds of a fork for each. Workers of later lanes yield the processor to those of earlier ones.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import queue
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

WorkerStatus = Literal["ok", "unreadable", "timeout", "error"]

STEPS_S = (0.05, 0.2, 1.0)
"""Seconds of processor time in each lane; most honest answers take less than the first."""
WORKERS = 2
"""Workers of each lane."""
NICE = 3
"""How much nicer the workers of each lane are than those of the lane before it."""
START_S = 600.0
"""Wall-clock seconds until the workers must be ready."""
PATIENCE_S = 600.0
"""Wall-clock seconds after which a worker that has neither answered nor died counts as broken."""
ATTEMPTS = 3
"""The system may take a worker, or the forker, twice; that costs nobody a result."""
_SCRIPT = Path(__file__).with_name("math_worker.py")


class _LateError(Exception):
    """The worker used up its processor time."""


class _BrokenError(Exception):
    """The answer broke the libraries."""


class _DeadError(Exception):
    """The worker was ended from outside, or is stuck."""


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
        """The reply. Raises _LateError, _BrokenError or _DeadError, after which the worker is of no use."""
        try:
            self._link.sendall(json.dumps(request).encode() + b"\n")
            line, self._buffer = _line(self._link, self._buffer, PATIENCE_S)
        except OSError:
            raise _DeadError from None
        reply: dict[str, Any] = json.loads(line)
        if (ended := reply.get("ended")) is None:
            return reply
        if ended == -signal.SIGPROF:
            raise _LateError
        raise _BrokenError if ended > 0 else _DeadError

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


class _Lane:
    """The workers for answers that get ``cpu_s`` seconds. Who waits longest has the next one."""

    def __init__(self, cpu_s: float, nice: int) -> None:
        self.limits = {"cpu_s": cpu_s, "nice": nice}
        self._lock = threading.Lock()
        self._idle: deque[_Worker | None] = deque([None] * WORKERS)
        self._waiting: deque[queue.SimpleQueue[_Worker | None]] = deque()

    def take(self) -> _Worker | None:
        """A worker for the caller alone, or None in place of one that is not started."""
        with self._lock:
            if self._idle:
                return self._idle.pop()
            mine: queue.SimpleQueue[_Worker | None] = queue.SimpleQueue()
            self._waiting.append(mine)
        try:
            return mine.get()
        except BaseException:  # Ctrl-C
            with self._lock:
                waits = mine in self._waiting
                if waits:
                    self._waiting.remove(mine)
            if not waits:
                self.give(mine.get())
            raise

    def give(self, worker: _Worker | None) -> None:
        """Give back what ``take`` gave, or None if the worker is of no more use."""
        with self._lock:
            if self._waiting:
                self._waiting.popleft().put(worker)
            elif worker is None:
                self._idle.appendleft(None)  # last, as a worker that runs is quicker
            else:
                self._idle.append(worker)

    def close(self) -> None:
        """End the idle workers."""
        with self._lock:
            for worker in filter(None, self._idle):
                worker.close()
            self._idle = deque([None] * len(self._idle))


class MathPool:
    """Workers, started on demand and replaced when they end. ``steps``: as ``STEPS_S``."""

    def __init__(self, steps: Sequence[float] = STEPS_S) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._forker: _Forker | None = None
        self._lanes = [_Lane(cpu_s, NICE * n) for n, cpu_s in enumerate(steps)]

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
        status, reply = self._in_lane(self._lanes[0], request)
        for lane in self._lanes[1:]:
            if status == "timeout":
                status, reply = self._in_lane(lane, request)
        return status, reply

    def _in_lane(self, lane: _Lane, request: dict[str, Any]) -> tuple[WorkerStatus, dict[str, Any]]:
        worker = lane.take()
        try:
            for _ in range(ATTEMPTS):
                try:
                    worker = worker or self._worker()
                    return "ok", worker.ask(request | lane.limits)
                except (_LateError, _BrokenError, _DeadError) as failure:
                    if worker is not None:
                        worker.close()
                    worker = None
                    if not isinstance(failure, _DeadError):
                        return ("timeout" if isinstance(failure, _LateError) else "error"), {}
            return "error", {}
        finally:
            lane.give(worker)

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
        for lane in self._lanes:
            lane.close()
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
