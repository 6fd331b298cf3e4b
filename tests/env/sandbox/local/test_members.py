"""What the zygote observes of an action's processes, tried on processes of our own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from mappa_env.sandbox.local.inside.members import _FASTEST, Members

MIB = 2**20
FAMILY = """
import os, sys, time
kept = bytearray(b"1" * (int(sys.argv[1]) << 20))
for _ in range(int(sys.argv[2])):
    if os.fork() == 0:
        break
def step(n):
    print(n, flush=True)
    while os.stat(0).st_size < n:  # a file that the test lengthens
        time.sleep(0.001)
"""


@contextmanager
def family(code: str, mib: int = 0, children: int = 0) -> Iterator[tuple[int, Steps]]:
    """Processes of a group of their own: a leader with ``mib`` MiB in ``kept``, and forks of it."""
    steps = Steps()
    with subprocess.Popen(
        [sys.executable, "-S", "-c", FAMILY + code, str(mib), str(children)],
        stdin=steps.fd,
        stdout=subprocess.PIPE,
        start_new_session=True,
    ) as leader:
        assert leader.stdout is not None
        steps.begin(leader.stdout.readline, 1 + children)
        try:
            yield leader.pid, steps
        finally:
            os.killpg(leader.pid, signal.SIGKILL)


class Steps:
    """Lets all processes of a family take the next step, and waits until they have."""

    def __init__(self) -> None:
        self.fd = os.memfd_create("steps")

    def begin(self, line: object, count: int) -> None:
        self._line, self._count, self._done = line, count, 0
        self._wait()

    def next(self) -> None:
        self._done += 1
        os.ftruncate(self.fd, self._done)
        self._wait()

    def _wait(self) -> None:
        for _ in range(self._count):
            assert self._line()  # type: ignore[operator]


GROW = """
step(1)
more = b"2" * (40 << 20)
step(2)
time.sleep(60)
"""
WRITE = """
step(1)
kept[::4096] = kept[::4096]
step(2)
time.sleep(60)
"""


@pytest.mark.parametrize("code", [GROW, WRITE], ids=["new_memory", "memory_that_was_shared"])
def test_memory_is_known_when_it_is_used(code: str) -> None:
    """Three processes with 40 MiB more each; at first they share all that they have."""
    with family(code, 40, 2) as (leader, steps):
        members = Members(leader, 110 * MIB, own=True)
        relaxed = members.soonest()
        assert members.excess(100, 10) == ""
        assert 0 < members.soonest() < relaxed
        os.ftruncate(steps.fd, 1)
        assert watched(members) == "memory"
        assert 110 * MIB < members.peak < 150 * MIB
        assert members.soonest() < 0


def test_memory_that_is_shared_counts_once() -> None:
    with family("step(1)\nstep(2)\n", 100, 5) as (leader, steps):
        members = Members(leader, 400 * MIB, own=True)
        assert members.excess(100, 10) == ""
        assert members.held
        members.resume()
        for _ in range(3):
            assert members.excess(100, 10) == ""
            assert not members.held
        steps.next()  # they were stopped for the measurement, and run again


def test_near_the_limit_each_process_has_its_turn() -> None:
    with family("step(1)\nstep(2)\n", 100, 5) as (leader, _):
        members = Members(leader, 180 * MIB, own=True)
        assert members.excess(100, 10) == ""
        pids = members.pids(10)
        for expected in pids:  # who has waited longest runs
            members.resume()
            assert _running(pids) == [expected]
            assert members.excess(100, 10) == ""


def _running(pids: list[int], count: int = 1) -> list[int]:
    """Those that are not stopped, as soon as there are ``count``; a signal may take a moment."""
    deadline = time.monotonic() + 60
    while len(found := [pid for pid in pids if _state(pid) != "T"]) != count and time.monotonic() < deadline:
        time.sleep(0.001)
    return found


@pytest.mark.parametrize("held", [True, False], ids=["while_all_are_held", "out_of_turn"])
def test_a_process_that_is_continued_by_others_counts_as_too_many(held: bool) -> None:
    with family("step(1)\nstep(2)\n", 100, 5) as (leader, _):
        members = Members(leader, 180 * MIB, own=True)
        assert members.excess(100, 10) == ""
        pids = members.pids(10)
        assert _running(pids, 0) == []
        members.excess(100, 10)  # sees that they have stopped
        if not held:
            members.resume()
        os.kill(pids[3], signal.SIGCONT)
        assert pids[3] in _running(pids, 1 if held else 2)
        if held:
            members.resume()
        assert members.excess(100, 10) == "killed"


def test_turns_end_when_memory_is_free_again() -> None:
    free = "step(1)\nkept.clear()\nstep(2)\ntime.sleep(60)\n"
    own = "kept[: 50 << 20 : 4096] = kept[: 50 << 20 : 4096]\n"  # and as much is shared
    with family(own + free, 100, 4) as (leader, steps):
        members = Members(leader, 400 * MIB, own=True)
        assert members.excess(100, 10) == ""
        assert members.soonest() < 128 * MIB / _FASTEST
        os.ftruncate(steps.fd, 1)
        deadline = time.monotonic() + 60
        while members.soonest() < 250 * MIB / _FASTEST and time.monotonic() < deadline:
            members.resume()
            time.sleep(0.002)
            assert members.excess(100, 10) == ""
        assert members.soonest() >= 250 * MIB / _FASTEST


def watched(members: Members) -> str:
    """What is exceeded first while processes run and are looked at, as in the zygote."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        members.resume()
        time.sleep(min(0.002, max(members.soonest(), 0)))
        if exceeded := members.excess(100, 10):
            return exceeded
    raise TimeoutError


def test_a_process_that_stopped_itself_stays_so() -> None:
    code = "step(1)\nimport signal\nos.getpid() == os.getpgrp() or os.kill(os.getpid(), signal.SIGSTOP)\n"
    with family(code + "step(2)\ntime.sleep(60)\n", 100, 3) as (leader, steps):
        os.ftruncate(steps.fd, 1)
        members = Members(leader, 1, own=True)
        children = members.pids(10)[1:]
        deadline = time.monotonic() + 60
        while any(_state(pid) != "T" for pid in children) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert members.excess(100, 10) == "memory"
        members.resume()
        assert _running([leader, *children]) == [leader]


def test_time_counts_also_in_processes_that_nobody_waits_for() -> None:
    code = """
import signal
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
step(1)
for _ in range(4):
    if os.fork() == 0:
        while time.process_time() < 0.4:
            pass
        os._exit(0)
    try:
        os.wait()
    except ChildProcessError:
        pass
step(2)
"""
    with family(code) as (leader, steps):
        members = Members(leader, 2**40, own=True)
        os.ftruncate(steps.fd, 1)
        deadline = time.monotonic() + 60
        while members.excess(1, 10) == "" and time.monotonic() < deadline:
            time.sleep(0.01)
        assert 1 <= members.cpu < 1.7


def test_as_many_processes_as_there_may_be() -> None:
    with family("step(1)\n", children=3) as (leader, _):
        members = Members(leader, 2**40, own=True)
        assert members.full(4)
        assert not members.full(5)


def _state(pid: int) -> str:
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0]
