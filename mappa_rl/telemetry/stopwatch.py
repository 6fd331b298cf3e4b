"""Where a run's wall time goes: one clock, and which components are active while the main thread waits."""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from mappa_env import team_env

KINDS = ("generation", "sandbox", "coach", "learner", "rest")
WAIT = "wait"


def fractions(seconds: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Fraction of the wall time of all phases, by kind, from ``Stopwatch.seconds``."""
    totals: dict[str, float] = dict.fromkeys(KINDS, 0.0)
    for cells in seconds.values():
        for kind, spent in cells.items():
            totals[kind] += spent
    wall = sum(totals.values())
    return {kind: spent / wall if wall else 0.0 for kind, spent in totals.items()}


class Stopwatch:
    """Splits every phase's wall time into ``KINDS``.

    The main thread does one kind of work at a time, or waits for environments; then the time is divided
    among the kinds that their threads are doing. So ``seconds`` (phase -> kind -> seconds) adds up to the
    wall time, and sandbox time in parallel with generation counts as generation, also if an engine generates
    by itself while the run waits. ``busy`` counts every kind: seconds in which at least one thread did it.
    Time outside a phase is not kept.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.seconds: dict[str, dict[str, float]] = {}
        self.busy: dict[str, dict[str, float]] = {}
        self._clock, self._since = clock, clock()
        self._lock = threading.Lock()
        self._own = threading.local()
        self._phase, self._run = "", "rest"
        self._threads: Counter[str] = Counter()

    def phase(self, name: str) -> None:
        """Begin the phase ``name``; empty: end the current one."""
        with self._lock:
            self._settle()
            self._phase = name

    @contextmanager
    def at(self, kind: str) -> Iterator[None]:
        """The main thread does ``kind``, or waits (``WAIT``)."""
        before = self._turn(kind)
        try:
            yield
        finally:
            self._turn(before)

    @contextmanager
    def working(self, kind: str) -> Iterator[None]:
        """The calling thread does ``kind``; inside another ``working`` it switches to it."""
        before: str = getattr(self._own, "kind", "")
        self._move(before, kind)
        try:
            yield
        finally:
            self._move(kind, before)

    def count(self, kind: str, change: int) -> None:
        """Add ``change`` to the number of other threads (of an engine) that do ``kind``."""
        with self._lock:
            self._settle()
            self._threads[kind] += change

    def attach(self, env: Any) -> None:
        """Time the sandbox and the coach of an environment from now on."""
        team_env(env).timer = self.working

    def settle(self) -> None:
        """Count the time up to now."""
        with self._lock:
            self._settle()

    def _turn(self, kind: str) -> str:
        with self._lock:
            self._settle()
            before, self._run = self._run, kind
        return before

    def _move(self, old: str, new: str) -> None:
        with self._lock:
            self._settle()
            if old:
                self._threads[old] -= 1
            if new:
                self._threads[new] += 1
        self._own.kind = new

    def _settle(self) -> None:
        """Add the time since the last change to what was active."""
        now = self._clock()
        spent, self._since = now - self._since, now
        if not self._phase or not spent:
            return
        cells = self.seconds.setdefault(self._phase, defaultdict(float))
        busy = self.busy.setdefault(self._phase, defaultdict(float))
        at_work = {kind: count for kind, count in self._threads.items() if count}
        if self._run != WAIT:
            cells[self._run] += spent
        elif "generation" in at_work:
            cells["generation"] += spent
        elif at_work:
            for kind, count in at_work.items():
                cells[kind] += spent * count / sum(at_work.values())
        else:
            cells["rest"] += spent
        for kind in at_work.keys() | ({self._run} - {WAIT}):
            busy[kind] += spent
