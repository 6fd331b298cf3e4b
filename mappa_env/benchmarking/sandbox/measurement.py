"""Timing: many callers keep one backend busy for a while, and every answer is checked."""

from __future__ import annotations

import itertools
import math
import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass

from mappa_env.benchmarking.actions import Action
from mappa_env.benchmarking.contenders import Contender, Seat
from mappa_env.sandbox.base import Result

Cell = tuple[str, str, int]
"""(backend, action, actions in flight)."""


@dataclass(frozen=True)
class Plan:
    """``backends``: label -> name. ``seconds``: how long new actions are started in a slice.

    ``patience``: the most seconds for one cell. One that would go beyond gets fewer repeats, or none:
    64 fresh interpreters on two cores take minutes.
    """

    backends: Mapping[str, str]
    actions: tuple[Action, ...]
    in_flight: tuple[int, ...]
    repeats: int
    seconds: float
    patience: float

    def cells(self) -> Iterator[Cell]:
        """In the order they are measured: backends take turns, so that noise strikes all of them alike."""
        for action in self.actions:
            for in_flight in self.in_flight:
                for backend in self.backends:
                    yield backend, action.name, in_flight


@dataclass(frozen=True)
class Slice:
    """One stretch of measuring. ``times``: seconds of every right answer as its caller waited, sorted."""

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
        """Nearest rank, in milliseconds."""
        return 1000 * self.times[math.ceil(share * len(self.times)) - 1]


def measure(plan: Plan, contenders: Sequence[Contender]) -> Iterator[Cell | Slice]:
    """Each cell as it begins, followed by its slice unless it is left out. A failed cell is not repeated."""
    actions = {action.name: action for action in plan.actions}
    by_name = {contender.name: contender for contender in contenders}
    spent: dict[Cell, float] = {}
    rates: dict[tuple[str, str], float] = {}
    cores = len(os.sched_getaffinity(0))
    for contender in contenders:  # not counted: it starts what starts lazily
        _slice(contender, plan.actions[0], (contender.name, plan.actions[0].name, cores), -1, 0.0)
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


def _slice(contender: Contender, action: Action, cell: Cell, repeat: int, seconds: float) -> Slice:
    seats: list[Seat] = []
    try:
        for _ in range(cell[2]):
            seats.append(contender.seat())
        crowd = _Crowd(action, seconds)
        elapsed = crowd.run(seats)
    finally:
        for seat in seats:
            seat.close()
    return Slice(cell, repeat, tuple(sorted(crowd.times)), elapsed, crowd.isolation, crowd.failure)


class _Crowd:
    """A thread per seat. Every seat acts at least once; none starts an action after ``seconds``."""

    def __init__(self, action: Action, seconds: float) -> None:
        self.times: list[float] = []
        self.isolation = self.failure = ""
        self._action = action
        self._seconds = seconds
        self._stop = threading.Event()

    def run(self, seats: Sequence[Seat]) -> float:
        """Returns the seconds it took. An interrupt waits for the actions in flight: nothing stays behind."""
        ready = threading.Barrier(len(seats) + 1)
        with ThreadPoolExecutor(len(seats)) as pool:
            jobs = [pool.submit(self._keep_busy, seat, ready) for seat in seats]
            ready.wait()
            began = time.perf_counter()
            try:
                wait(jobs)
            finally:
                self._stop.set()
        for job in jobs:
            job.result()
        return time.perf_counter() - began

    def _keep_busy(self, seat: Seat, ready: threading.Barrier) -> None:
        ready.wait()
        end = time.perf_counter() + self._seconds
        for seed in itertools.count():
            start = time.perf_counter()
            result = seat.run(self._action.code, seed)
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
