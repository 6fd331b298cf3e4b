"""Measures latency: many callers keep one backend busy for a while, and every answer is checked."""

from __future__ import annotations

import itertools
import math
import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass

from mappa_env.benchmarking.sandbox.actions import Action
from mappa_env.benchmarking.sandbox.backends import Backend, Caller
from mappa_env.sandbox.base import Result

Cell = tuple[str, str, int]
"""(backend, action, actions in flight)."""


@dataclass(frozen=True)
class Plan:
    """``backends``: label -> name. ``seconds``: how long a slice starts new actions.

    ``patience``: the maximum seconds for one cell. A cell that would take longer gets fewer repeats or none,
    because 64 fresh interpreters on two cores take minutes.
    """

    backends: Mapping[str, str]
    actions: tuple[Action, ...]
    in_flight: tuple[int, ...]
    repeats: int
    seconds: float
    patience: float

    def cells(self) -> Iterator[Cell]:
        """The cells in order of measurement. Backends take turns, so that noise affects all of them alike."""
        for action in self.actions:
            for in_flight in self.in_flight:
                for backend in self.backends:
                    yield backend, action.name, in_flight


@dataclass(frozen=True)
class Slice:
    """One measurement of a cell. ``times``: sorted seconds that callers waited for each correct answer."""

    cell: Cell
    repeat: int
    times: tuple[float, ...]
    elapsed: float
    isolation: str
    failure: str = ""

    @property
    def rate(self) -> float:
        """Actions per second."""
        return len(self.times) / self.elapsed

    def percentile(self, share: float) -> float:
        """The percentile by nearest rank, in milliseconds."""
        return 1000 * self.times[math.ceil(share * len(self.times)) - 1]


def measure(plan: Plan, opened: Sequence[Backend]) -> Iterator[Cell | Slice]:
    """Yield each cell as it begins, then its slice unless skipped. Does not repeat a failed cell."""
    actions = {action.name: action for action in plan.actions}
    by_name = {target.name: target for target in opened}
    spent: dict[Cell, float] = {}
    rates: dict[tuple[str, str], float] = {}
    cores = len(os.sched_getaffinity(0))
    for target in opened:  # warm-up, not counted
        _slice(target, plan.actions[0], (target.name, plan.actions[0].name, cores), -1, 0.0)
    for repeat in range(plan.repeats):
        for cell in plan.cells():
            yield cell
            backend, action, in_flight = cell
            rate = rates.get((backend, action))
            expected = max(plan.seconds, in_flight / rate if rate else 0.0)
            if spent.get(cell, 0.0) + expected > plan.patience:
                continue
            found = _slice(by_name[backend], actions[action], cell, repeat, plan.seconds)
            spent[cell] = spent.get(cell, 0.0) + found.elapsed
            if found.failure:
                spent[cell] = float("inf")
            elif found.times:
                rates[backend, action] = found.rate
            yield found


def _slice(target: Backend, action: Action, cell: Cell, repeat: int, seconds: float) -> Slice:
    callers: list[Caller] = []
    try:
        for _ in range(cell[2]):
            callers.append(target.caller())
        crowd = _Crowd(action, seconds)
        elapsed = crowd.run(callers)
    finally:
        for caller in callers:
            caller.close()
    return Slice(cell, repeat, tuple(sorted(crowd.times)), elapsed, crowd.isolation, crowd.failure)


class _Crowd:
    """One thread per caller. Every caller acts at least once, and starts no action after ``seconds``."""

    def __init__(self, action: Action, seconds: float) -> None:
        self.times: list[float] = []
        self.isolation = self.failure = ""
        self._action = action
        self._seconds = seconds
        self._stop = threading.Event()

    def run(self, callers: Sequence[Caller]) -> float:
        """Run and return the seconds that it took. After an interrupt, waits for the actions in flight."""
        ready = threading.Barrier(len(callers) + 1)
        with ThreadPoolExecutor(len(callers)) as pool:
            jobs = [pool.submit(self._keep_busy, caller, ready) for caller in callers]
            ready.wait()
            began = time.perf_counter()
            try:
                wait(jobs)
            finally:
                self._stop.set()
        for job in jobs:
            job.result()
        return time.perf_counter() - began

    def _keep_busy(self, caller: Caller, ready: threading.Barrier) -> None:
        ready.wait()
        end = time.perf_counter() + self._seconds
        for seed in itertools.count():
            start = time.perf_counter()
            result = caller.run(self._action.code, seed)
            now = time.perf_counter()
            if not self._right(result):
                self._stop.set()
                return
            self.times.append(now - start)
            if now >= end or self._stop.is_set():
                return

    def _right(self, result: Result) -> bool:
        self.isolation = result.isolation
        if result.status == "ok" and result.stdout == "done\n":
            return True
        said = (result.stderr or result.stdout).strip()[-300:]
        self.failure = f"{result.status}: {said}"
        return False
