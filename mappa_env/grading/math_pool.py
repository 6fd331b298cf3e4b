"""A small pool of killable math workers, shared by all graders of a process. Thread-safe."""

from __future__ import annotations

import atexit
import functools
import json
import os
import queue
import select
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

WorkerStatus = Literal["ok", "unreadable", "timeout", "error"]

SIZE = 2
DEADLINE_S = 1.0
"""Wall-clock seconds per answer; honest answers take milliseconds."""
START_S = 60.0
_SCRIPT = Path(__file__).with_name("math_worker.py")


class _LateError(Exception):
    """The worker did not answer in time."""


class _DeadError(Exception):
    """The worker has ended."""


class _Worker:
    """One process. Starting it returns at once; the first request waits until it is ready."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-I", str(_SCRIPT)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={},
            start_new_session=True,  # Ctrl-C in a terminal must reach only the host
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._requests, self._replies = self._process.stdin.fileno(), self._process.stdout.fileno()
        self._ready = False
        self._buffer = b""

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        if not self._ready:
            self._line(START_S)
            self._ready = True
        try:
            os.write(self._requests, json.dumps(request).encode() + b"\n")  # < PIPE_BUF: never blocks
        except BrokenPipeError:
            raise _DeadError from None
        reply: dict[str, Any] = json.loads(self._line(DEADLINE_S))
        return reply

    def _line(self, seconds: float) -> bytes:
        end = time.monotonic() + seconds
        while b"\n" not in self._buffer:
            poll = select.poll()  # select() fails on descriptors above 1023
            poll.register(self._replies, select.POLLIN)
            if not poll.poll(max(0.0, end - time.monotonic()) * 1000):
                raise _LateError
            chunk = os.read(self._replies, 4096)
            if not chunk:
                raise _DeadError
            self._buffer += chunk
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()  # closes the pipes and reaps


class MathPool:
    """At most SIZE workers, started on demand and replaced after a kill."""

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._idle: queue.Queue[_Worker | None] = queue.Queue()
        for _ in range(SIZE):
            self._idle.put(None)

    def verify(self, box: str, golds: Sequence[str]) -> tuple[WorkerStatus, bool]:
        """Whether ``box`` equals one of ``golds`` as mathematics. Waits for a free worker."""
        worker = self._idle.get() or _Worker()
        status: WorkerStatus
        correct = False
        try:
            reply = worker.ask({"box": box, "golds": list(golds)})
            status, correct = ("ok" if reply["readable"] else "unreadable"), reply["correct"]
        except (_LateError, _DeadError) as failure:
            status = "timeout" if isinstance(failure, _LateError) else "error"
            worker.kill()
            worker = _Worker()  # starts in the background
        finally:
            self._idle.put(worker)
        return status, correct

    def close(self) -> None:
        """Kill the idle workers; the pool stays usable. Does nothing in a forked child."""
        if os.getpid() != self._pid:
            return
        for _ in range(SIZE):
            try:
                worker = self._idle.get_nowait()
            except queue.Empty:
                return
            if worker is not None:
                worker.kill()
            self._idle.put(None)


def shared_pool() -> MathPool:
    """This process's pool; a forked child gets its own."""
    return _pool_of(os.getpid())


@functools.cache
def _pool_of(pid: int) -> MathPool:
    pool = MathPool()
    atexit.register(pool.close)
    return pool
