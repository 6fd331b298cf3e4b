"""The processes of an action according to ``/proc``. Never raises for processes that end meanwhile."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Sequence

_PAGE = os.sysconf("SC_PAGE_SIZE")


def members(root: int, most: int) -> list[int]:
    """``root`` and its living descendants, at most ``most``; without orphans."""
    found = [root]
    for parent in found:  # grows while it is walked
        found += children(parent)
        if len(found) >= most:
            break
    return found[:most]


def children(parent: int) -> list[int]:
    """Pids of the children of ``parent``, adopted ones included, that it has not yet waited for."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{parent}/task"):
            with open(f"/proc/{parent}/task/{task}/children") as file:
                found += map(int, file.read().split())
    return found


def memory(pids: Sequence[int], limit: int) -> bool:
    """Whether these processes together hold more than ``limit`` bytes of memory.

    Resident sizes count shared pages once per process, so the slower but exact figure (PSS) decides.
    """
    return sum(map(_resident, pids)) > limit and sum(map(_proportional, pids)) > limit


def end_strays(root: int, home: str) -> None:
    """Kill processes that left the session of ``root`` but still have its ``HOME``.

    Checks only pids above ``root``, which is cheap. Misses a process that also replaced its environment:
    this is cleanup, not isolation.
    """
    mark = f"\0HOME={home}\0".encode()
    for _ in range(10):  # a stray may fork while it is being looked for
        found = [pid for pid in _running() if pid > root and mark in b"\0" + _environment(pid)]
        for pid in found:
            try:
                handle = os.pidfd_open(pid)
            except OSError:
                continue
            try:
                if mark in b"\0" + _environment(pid):  # still the same process, now that it is held
                    signal.pidfd_send_signal(handle, signal.SIGKILL)
            except ProcessLookupError:
                continue
            finally:
                os.close(handle)
        if not found:
            return


def _running() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _environment(pid: int) -> bytes:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return file.read(65536)
    except OSError:
        return b""


def _resident(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/statm") as file:
            return int(file.read().split()[1]) * _PAGE
    except (OSError, IndexError):
        return 0


def _proportional(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/smaps_rollup") as file:
            return next((int(line.split()[1]) << 10 for line in file if line.startswith("Pss:")), 0)
    except OSError:
        return _resident(pid)
