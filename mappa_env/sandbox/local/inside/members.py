"""The live processes of one action and their resource usage. A process that ends meanwhile is no error.

Exact sizes (PSS) take milliseconds, so between two exact measurements we only bound the growth from above: a
page that appears or stops being shared costs its process a fault or a larger resident size.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from dataclasses import dataclass

_PAGE = os.sysconf("SC_PAGE_SIZE")
_TICK = os.sysconf("SC_CLK_TCK")
_FASTEST = (os.cpu_count() or 1) * 8 * 2**30
"""Bytes per second that processes can fill at most, about: 8 GiB/s on each processor."""
_NEAR = 128 * 2**20
"""The last bytes below the limit, but at most half of it, which several processes fill one at a time: on a
busy machine a look is 20 ms late, and two processors fill as much in that time."""
_PASSES = 10
"""Times that we look for new processes while we stop all. Each pass stops the parents of the next one's."""
_AGAIN = 10
"""While processes take turns, they are measured again after this many times the duration of a measurement."""
_AWAKE = ("R", "S", "D")
"""States of a process that has neither stopped nor ended."""
_BUFFER = 32 * 1024
"""Bytes charged per open descriptor: a pipe or socket pair buffers 64 KiB or more, which no RSS includes."""


@dataclass(frozen=True)
class _Stat:
    """Of one process with all its threads: memory in bytes, faults, and CPU time in ticks."""

    resident: int
    faults: int
    threads: int
    ticks: int
    waited: int
    """Ticks of the children that it has waited for."""

    def grown(self, before: _Stat) -> int:
        """At most so many bytes have become its own since ``before``."""
        return (self.faults - before.faults) * _PAGE + max(self.resident - before.resident, 0)


class Members:
    """``leader`` leads its own pid namespace (``own``), or a process group that its children cannot leave."""

    def __init__(self, leader: int, memory: int, *, own: bool) -> None:
        """``memory``: the limit of all of them together, in bytes."""
        self._leader = leader
        self._own = own
        self._memory = memory
        self._spare = memory  # at the last look, at least so many bytes were below the limit
        self._ticks: dict[int, int] = {}  # of each live process
        self._gone = 0  # ticks of processes that have ended, as last seen
        self._measured = 0  # bytes at the last exact measurement, when the processes were as in _then
        self._then: dict[int, _Stat] = {}
        self._stopped: list[int] = []  # by us; who has waited longest comes first
        self.held = False
        """Whether all processes are stopped, until `resume`."""
        self._turns = False  # whether they run one at a time
        self._still: list[int] = []  # those that have stopped, as was seen, and still must not run
        self._escaped = False  # whether one of these ran before `resume`
        self._due = 0.0  # when processes that take turns are measured again
        self.cpu = 0.0
        """Seconds of CPU time seen so far, also of processes that nobody waited for."""
        self.peak = 0
        """The most bytes of memory seen so far, where they were measured exactly."""

    def pids(self, most: int) -> list[int]:
        """Return at most ``most`` pids, the leader's first."""
        found = [self._leader, *self._orphans()]
        for parent in found:  # grows while it is walked
            for task in _tasks(parent):
                found += map(int, _read(f"/proc/{parent}/task/{task}/children").split())
            if len(found) >= most:
                break
        return found[:most]

    def excess(self, cpu: int, processes: int) -> str:
        """The limit that is exceeded now, or empty. In seconds, and processes including threads.

        Several processes that had to be measured exactly, or that take turns, are ``held``. Those that cannot
        be stopped, or that run again before `resume`, count as too many.
        """
        if self._escaped or (self._turns and not self._hold(processes + 1)):
            return "killed"
        pids = self.pids(processes + 1)
        now = {pid: stat for pid in pids if (stat := _stat(pid)) is not None}
        if len(pids) > processes or sum(stat.threads for stat in now.values()) > processes:
            return "killed"
        if self._count(now) >= cpu:
            return "timeout"
        used = self._most(now) + sum(map(_buffered, pids))
        if used > self._memory or (self._turns and time.monotonic() > self._due):
            if not self._hold(processes + 1):
                return "killed"
            used = self._measure(processes + 1)
            self.peak = max(self.peak, used)
        self._spare = self._memory - used
        self._still = [pid for pid in pids if _state(pid) == "T"] if self.held else []
        self._turns = self.held and self._spare < min(_NEAR, self._memory // 2)
        return "memory" if used > self._memory else ""

    def full(self, processes: int) -> bool:
        """Whether there are at least ``processes`` processes and threads."""
        stats = map(_stat, self.pids(processes))
        return sum(stat.threads for stat in stats if stat is not None) >= processes

    def soonest(self) -> float:
        """Seconds after the last look at which the memory limit could be exceeded at the earliest."""
        return self._spare / _FASTEST

    def resume(self) -> None:
        """Let the held processes run on: near the limit only the one that has waited longest."""
        self._escaped = self._loose(self._still)
        turn = 1 if self._turns else len(self._stopped)
        for pid in self._stopped[:turn]:
            _signal(pid, signal.SIGCONT)
        del self._stopped[:turn]
        self._still = [pid for pid in self._still if pid in self._stopped]
        self.held = False

    def _measure(self, most: int) -> int:
        """All that is in use, exactly except for buffers."""
        began = time.monotonic()
        pids = self.pids(most)
        self._then = {pid: stat for pid in pids if (stat := _stat(pid)) is not None}
        self._measured = sum(map(_proportional, pids))
        now = time.monotonic()
        self._due = now + _AGAIN * (now - began)
        return self._measured + sum(map(_buffered, pids))

    def _hold(self, most: int) -> bool:
        """Stop several processes: running ones grow meanwhile, and make us wait. One has a hard limit.

        False: they cannot be stopped.
        """
        if self._loose(self._still):
            return False
        seen: set[int] = set()
        for _ in range(_PASSES):
            left = [pid for pid in self.pids(most) if pid not in seen]
            if len(left) < (1 if seen else 2):
                break
            seen.update(left)
            for pid in left:
                if pid in self._stopped:  # another one may have continued it
                    _signal(pid, signal.SIGSTOP)
                elif _state(pid) in _AWAKE:
                    _signal(pid, signal.SIGSTOP)
                    self._stopped.append(pid)
        else:
            return False
        self._stopped = [pid for pid in self._stopped if _state(pid)]
        self.held = bool(self._stopped)
        return True

    def _loose(self, stopped: list[int]) -> bool:
        """Whether one of the processes that had stopped runs: a sibling or a timer has sent it SIGCONT."""
        return any(_state(pid) in _AWAKE for pid in stopped)

    def _count(self, now: dict[int, _Stat]) -> float:
        """Update ``cpu``."""
        for pid, ticks in self._ticks.items():
            if pid not in now or now[pid].ticks < ticks:
                self._gone += ticks
        self._ticks = {pid: stat.ticks for pid, stat in now.items()}
        # A process that is waited for is in both sums, so they must not be added.
        alive = sum(self._ticks.values())
        ticks = alive + max(self._gone, sum(stat.waited for stat in now.values()))
        self.cpu = max(self.cpu, ticks / _TICK)
        return self.cpu

    def _most(self, now: dict[int, _Stat]) -> int:
        """At most so many bytes are in use; of a new process, all that it shares counts too."""
        known = ((stat, self._then.get(pid)) for pid, stat in now.items())
        grown = sum(stat.grown(then) if then else stat.resident for stat, then in known)
        return min(self._measured + grown, sum(stat.resident for stat in now.values()))

    def end(self) -> None:
        """Kill and reap all but the leader, whose zombie still reserves the process group's number.

        In a pid namespace the kernel has already killed them.
        """
        deadline = time.monotonic() + 2
        while (left := self._orphans()) and time.monotonic() < deadline:
            os.killpg(self._leader, signal.SIGKILL)
            for pid in left:
                os.waitpid(pid, os.WNOHANG)
            time.sleep(0.001)

    def _orphans(self) -> list[int]:
        """Members whose parent is dead. In a pid namespace the leader adopts them; otherwise we do."""
        if self._own:
            return []
        ours = map(int, _read(f"/proc/self/task/{os.getpid()}/children").split())
        return [pid for pid in ours if pid != self._leader and _group(pid) == self._leader]


def _tasks(pid: int) -> list[str]:
    try:
        return os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def _fields(pid: int) -> list[str]:
    """The fields after the process name, which may contain any character."""
    return _read(f"/proc/{pid}/stat").rpartition(")")[2].split()


def _state(pid: int) -> str:
    """As in ``/proc/PID/stat``; empty if there is no such process any more."""
    return next(iter(_fields(pid)), "")


def _group(pid: int) -> int:
    fields = _fields(pid)
    return int(fields[2]) if fields else 0


def _stat(pid: int) -> _Stat | None:
    """None if there is no such process any more."""
    fields = _fields(pid)
    if not fields:
        return None
    faults, own, system, waited, waited_system, threads, pages = (
        int(fields[at]) for at in (7, 11, 12, 13, 14, 17, 21)
    )
    resident = pages * _PAGE or _resident(pid)
    return _Stat(resident, faults, threads, own + system, waited + waited_system)


def _resident(pid: int) -> int:
    """The maximum over threads: a main thread that has ended shows nothing while others still run."""
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
