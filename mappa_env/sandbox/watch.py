"""Watches one running child: drains its output, ends it in time, and cleans up after it."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import time
from typing import IO

from mappa_env.sandbox.base import Limits
from mappa_env.sandbox.output import Capture
from mappa_env.sandbox.tree import end_strays, members, memory
from mappa_env.types import RunStatus

GRACE_S = 0.2
"""Seconds to wait for killed processes, and for the end of a pipe that another process still holds."""
LOOK_S = 0.2
"""Seconds between checks of the memory and number of processes of the whole tree."""


class Watch:
    """Watches a child that leads its own session. ``home`` identifies its descendants by their environment.

    After ``wait`` the child is reaped, every descendant that was found is dead, and no descriptor is left
    open. ``out`` and ``err`` hold its output, ``usage`` its resource usage.
    """

    def __init__(self, process: subprocess.Popen[bytes], limits: Limits, home: str) -> None:
        self.out = Capture(limits.output_kb * 1024)
        self.err = Capture(limits.output_kb * 1024)
        self._process = process
        self._limits = limits
        self._home = home

    def wait(self) -> RunStatus | None:
        """Block until the child is dead. Returns the exceeded limit if the host ended it, else None."""
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        with self._process.stdout as out, self._process.stderr as err, selectors.PollSelector() as selector:
            try:
                exited = os.pidfd_open(self._process.pid)
                try:
                    selector.register(exited, selectors.EVENT_READ)
                    for stream, capture in ((out, self.out), (err, self.err)):
                        os.set_blocking(stream.fileno(), False)  # the child may steal bytes from the pipe
                        selector.register(stream, selectors.EVENT_READ, capture)
                    exceeded = self._until_exit(selector)
                    selector.unregister(exited)
                finally:
                    os.close(exited)
                self._clean(selector)
            finally:
                self._reap()
        return exceeded

    def _until_exit(self, selector: selectors.BaseSelector) -> RunStatus | None:
        deadline = time.monotonic() + self._limits.wall_s
        look = time.monotonic() + LOOK_S
        exceeded: RunStatus | None = None
        while True:
            now = time.monotonic()
            if exceeded is None and now >= deadline:
                exceeded = "timeout"
            if exceeded is None and now >= look:
                look = now + LOOK_S
                exceeded = self._excess()
            if exceeded is not None:
                self._kill()
            if _drain(selector, GRACE_S if exceeded else min(deadline, look) - now):
                return exceeded
            if exceeded is None and max(self.out.total, self.err.total) > self._limits.output_cap_mb << 20:
                exceeded = "output_limit"

    def _clean(self, selector: selectors.BaseSelector) -> None:
        """End processes that outlive the child, while its zombie still reserves the group's number."""
        self._kill()
        self._end_rest()
        end = time.monotonic() + GRACE_S
        while selector.get_map() and (left := end - time.monotonic()) > 0:
            _drain(selector, left)

    def _reap(self) -> None:
        self._kill()
        _, status, self.usage = os.wait4(self._process.pid, 0)
        self._process.returncode = os.waitstatus_to_exitcode(status)
        end = time.monotonic() + GRACE_S
        with contextlib.suppress(ProcessLookupError):
            while time.monotonic() < end:  # dying processes must not write during the scan
                os.killpg(self._process.pid, 0)
                time.sleep(0.001)

    def _end_rest(self) -> None:
        end_strays(self._process.pid, self._home)

    def _excess(self) -> RunStatus | None:
        pids = members(self._process.pid, self._limits.processes + 1)
        if len(pids) > self._limits.processes:
            return "killed"
        return "memory" if memory(pids, self._limits.memory_mb << 20) else None

    def _kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)


def _drain(selector: selectors.BaseSelector, timeout: float) -> bool:
    """Read the output that arrives within ``timeout`` seconds; True if the child has exited."""
    exited = False
    for key, _ in selector.select(max(timeout, 0.0)):
        if key.data is None:
            exited = True
        elif not _feed(key.fileobj, key.data):  # type: ignore[arg-type]
            selector.unregister(key.fileobj)
    return exited


def _feed(stream: IO[bytes], capture: Capture) -> bool:
    """Move one chunk; False at the end of the stream."""
    try:
        data = os.read(stream.fileno(), 65536)
    except BlockingIOError:
        return True
    capture.feed(data)
    return bool(data)
