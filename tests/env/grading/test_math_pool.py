"""The workers that compare expressions: none loses an answer or keeps others waiting for long."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mappa_env.grading import math_pool
from mappa_env.grading.math_pool import STEPS_S, WORKERS, MathPool

NEVER = r"\sum_{i=1}^{10^9}\sin(i)+%d"
"""An answer that takes all the time that it gets."""
OVERHEAD_S = 0.15
"""More than the processor time that a worker takes to start, and to notice that its time is up."""


Verdict = tuple[str, list[bool]]


@pytest.fixture(scope="module")
def pool() -> Iterator[MathPool]:
    with contextlib.closing(MathPool()) as pool:
        assert pool.compare([("x+1", "1+x")]) == ("ok", [True])
        yield pool


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, float]]:
    """The (answer, seconds) that workers are asked, in order."""
    found: list[tuple[str, float]] = []
    ask = math_pool._Worker.ask

    def spy(worker, request):
        found.append((request["pairs"][0][1], request["cpu_s"]))
        return ask(worker, request)

    monkeypatch.setattr(math_pool._Worker, "ask", spy)
    return found


def flooded(pool: MathPool, hostile: int, pair: tuple[str, str]) -> tuple[Verdict, list[Verdict]]:
    """The verdicts on a pair, and on hostile answers that wait in the first lane before it."""
    with ThreadPoolExecutor(hostile) as threads:
        found = [threads.submit(pool.compare, [("x", NEVER % n)]) for n in range(hostile)]
        while not any(each.done() for each in found) and len(pool._lanes[0]._waiting) < hostile - WORKERS:
            time.sleep(0.001)
        return pool.compare([pair]), [each.result() for each in found]


def ended_s(pool: MathPool) -> float:
    """Processor time of all workers that have ended."""
    fields = Path(f"/proc/{pool._forker._process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.slow
def test_an_honest_answer_waits_for_the_first_step_of_those_before_it_alone(asked):
    first, last, hostile = 0.3, 0.5, 10
    with contextlib.closing(MathPool((first, last))) as pool:
        assert pool.compare([("x+1", "1+x")]) == ("ok", [True])
        asked.clear()
        before = ended_s(pool)
        found, said = flooded(pool, hostile, ("x+1", "1+x"))
        assert found == ("ok", [True])
        assert said == [("timeout", [False])] * hostile
        ahead = asked[: asked.index(("1+x", first))]
        assert {each for each in ahead if each[1] == first} == {(NEVER % n, first) for n in range(hostile)}
        assert len(asked) == 1 + 2 * hostile  # each once in each lane
        assert ended_s(pool) - before < hostile * (first + last + 2 * OVERHEAD_S)


@pytest.mark.slow
def test_a_right_answer_that_takes_long_is_right_beside_hostile_ones(asked):
    with contextlib.closing(MathPool((0.001, 0.002, 1.5))) as pool:
        found, said = flooded(pool, 6, ("x^2+2x+1", "(x+1)^2"))
        assert found == ("ok", [True])
        assert said == [("timeout", [False])] * 6
        assert ("(x+1)^2", 1.5) in asked


def test_who_waits_longest_has_the_next_worker():
    lane = math_pool._Lane(1.0, 0)
    taken = [lane.take() for _ in range(WORKERS)]
    order: list[int] = []

    def wait(n: int) -> None:
        worker = lane.take()
        order.append(n)
        lane.give(worker)

    threads = [threading.Thread(target=wait, args=(n,)) for n in range(20)]
    for n, thread in enumerate(threads):
        thread.start()
        while len(lane._waiting) <= n:
            time.sleep(0.001)
    lane.give(taken.pop())
    for thread in threads:
        thread.join()
    assert order == list(range(20))


def test_an_answer_that_breaks_the_libraries_is_not_asked_again(pool, monkeypatch):
    times: list[int] = []
    start = pool._worker
    monkeypatch.setattr(pool, "_worker", lambda: times.append(1) or start())
    pool.close()
    assert pool._ask({"pairs": [["no pair"]], "golds": []}) == ("error", {})
    assert len(times) == 1
    assert pool.compare([("x+1", "1+x")]) == ("ok", [True])


@pytest.mark.slow
def test_time_is_processor_time(pool):
    """A stopped worker is not a slow one: its answer still counts when it goes on."""
    workers = workers_of(pool)
    for worker in workers:
        os.kill(worker, signal.SIGSTOP)
    goes_on = threading.Timer(sum(STEPS_S) + 0.5, signal_all, (workers, signal.SIGCONT))
    goes_on.start()
    assert pool.compare([("x+1", "1+x")]) == ("ok", [True])
    goes_on.join()


def workers_of(pool: MathPool) -> list[int]:
    forker = pool._forker._process.pid
    return [int(pid) for pid in Path(f"/proc/{forker}/task/{forker}/children").read_text().split()]


def signal_all(pids: list[int], number: int) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):  # it ended since it was listed
            os.kill(pid, number)


def test_a_worker_that_the_system_takes_costs_no_answer(pool):
    for _ in range(3):
        signal_all(workers_of(pool), signal.SIGKILL)
        assert pool.compare([("x+1", "1+x")]) == ("ok", [True])
    signal_all([*workers_of(pool), pool._forker._process.pid], signal.SIGKILL)
    pool._forker._process.wait()
    assert pool.compare([("x+1", "1+x"), ("x+1", "x+2")]) == ("ok", [True, False])


def test_a_closed_pool_leaves_no_process_and_starts_again(pool):
    process = pool._forker._process
    pool.close()
    assert process.poll() is not None
    assert pool.compare([(r"\sqrt{8}", r"2\sqrt{2}")]) == ("ok", [True])


def test_from_threads_every_answer_gets_its_own_grade(pool):
    with ThreadPoolExecutor(8) as threads:
        pairs = [[("x^2", "x" * (n % 2 + 1))] for n in range(40)]
        found = list(threads.map(pool.compare, pairs))
    assert found == [("ok", [n % 2 == 1]) for n in range(40)]


NICE = 7
WORKERS_OF_A_NICE_HOST = f"""
import os
import psutil
from mappa_env.grading.math_pool import MathPool
os.nice({NICE})
pool = MathPool()
print(*pool.compare([("x+1", "1+x")]), [each.nice() for each in psutil.Process().children(recursive=True)])
pool.close()
"""


def test_workers_of_a_nice_host_are_no_less_nice() -> None:
    run = subprocess.run(
        [sys.executable, "-c", WORKERS_OF_A_NICE_HOST], capture_output=True, text=True, check=True
    )
    nice = os.nice(0) + NICE  # whoever runs the tests may be nice, too
    assert run.stdout.strip() == f"ok [True] [{nice}, {nice}]"
