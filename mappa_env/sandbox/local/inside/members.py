"""The living processes of one action, and what they use. They come and go while one looks: never raises."""

from __future__ import annotations

import os
import signal
import time

_PAGE = os.sysconf("SC_PAGE_SIZE")
_TICK = os.sysconf("SC_CLK_TCK")
_BUFFER = 32 * 1024
"""What an open descriptor counts as: two of a pipe or socket pair hold 64 KiB or more, in nobody's size."""


class Members:
    """``leader`` heads its own pid namespace (``own``), or a process group that its children cannot leave."""

    def __init__(self, leader: int, *, own: bool) -> None:
        self._leader = leader
        self._own = own

    def pids(self, most: int) -> list[int]:
        """At most ``most`` of them, the leader first."""
        found = [self._leader, *self._orphans()]
        for parent in found:  # grows while it is walked
            for task in _tasks(parent):
                found += map(int, _read(f"/proc/{parent}/task/{task}/children").split())
            if len(found) >= most:
                break
        return found[:most]

    def excess(self, memory: int, cpu: int, processes: int) -> str:
        """The limit that is exceeded now, or nothing. Bytes, seconds, processes and threads together."""
        pids = self.pids(processes + 1)
        if len(pids) > processes or sum(len(_tasks(pid)) for pid in pids) > processes:
            return "killed"
        if sum(map(_processor_ticks, pids)) >= cpu * _TICK:
            return "timeout"
        buffered = sum(map(_buffered, pids))
        if sum(map(_resident, pids)) + buffered <= memory:  # counts shared pages once per process
            return ""
        return "memory" if sum(map(_proportional, pids)) + buffered > memory else ""

    def end(self) -> None:
        """Kill and reap all but the leader, which is a zombie by now and keeps the group's number from reuse.

        Where they have a namespace of their own the kernel has done it already.
        """
        deadline = time.monotonic() + 2
        while (left := self._orphans()) and time.monotonic() < deadline:
            os.killpg(self._leader, signal.SIGKILL)
            for pid in left:
                os.waitpid(pid, os.WNOHANG)
            time.sleep(0.001)

    def _orphans(self) -> list[int]:
        """Members whose parent is dead: in a namespace they go to the leader, else they have come to us."""
        if self._own:
            return []
        ours = map(int, _read(f"/proc/self/task/{os.getpid()}/children").split())
        return [pid for pid in ours if pid != self._leader and _group(pid) == self._leader]


def _tasks(pid: int) -> list[str]:
    try:
        return os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def _stat(pid: int) -> list[str]:
    """From the state on: what follows the name, which may hold anything."""
    return _read(f"/proc/{pid}/stat").rpartition(")")[2].split()


def _group(pid: int) -> int:
    fields = _stat(pid)
    return int(fields[2]) if fields else 0


def _processor_ticks(pid: int) -> int:
    """Of the process and of the children that it has waited for."""
    return sum(map(int, _stat(pid)[11:15]))


def _resident(pid: int) -> int:
    """Of whichever thread tells: a first thread that has ended shows nothing, while the others live on."""
    fields = [_read(f"/proc/{pid}/task/{task}/statm").split() for task in _tasks(pid)]
    return max((int(field[1]) * _PAGE for field in fields if field), default=0)


def _proportional(pid: int) -> int:
    for line in _read(f"/proc/{pid}/smaps_rollup").splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) << 10
    return _resident(pid)


def _buffered(pid: int) -> int:
    return max((_descriptors(pid, task) for task in _tasks(pid)), default=0) * _BUFFER


def _descriptors(pid: int, task: str) -> int:
    try:
        return len(os.listdir(f"/proc/{pid}/task/{task}/fd"))
    except OSError:
        return 0
