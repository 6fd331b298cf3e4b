"""Where the wall time of a run goes: one clock, and who is at work while the run waits."""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

KINDS = ("generation", "sandbox", "coach", "learner", "rest")
WAIT = "wait"


class Stopwatch:
    """Splits every phase's wall time into ``KINDS``.

    The run's own thread is at one kind at a time, or waits for environments; then the time is divided among
    what their threads are at in that moment. So ``seconds`` (phase -> kind -> seconds) adds up to the wall
    time, and sandbox time behind which something else was generated counts as generation, also where an
    engine generates by itself while the run waits. ``busy`` counts it all: seconds in which at least one
    thread was at the kind. Time outside of a phase is not kept.
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
        """What follows belongs to ``name``; empty: to no phase."""
        with self._lock:
            self._settle()
            self._phase = name

    @contextmanager
    def at(self, kind: str) -> Iterator[None]:
        """The run's own thread is at ``kind``, or at ``WAIT``."""
        before = self._turn(kind)
        try:
            yield
        finally:
            self._turn(before)

    @contextmanager
    def working(self, kind: str) -> Iterator[None]:
        """The calling thread is at ``kind`` for the run; inside another ``working`` it only changes to it."""
        before: str = getattr(self._own, "kind", "")
        self._move(before, kind)
        try:
            yield
        finally:
            self._move(kind, before)

    def count(self, kind: str, change: int) -> None:
        """So many more (or fewer, below 0) are at ``kind``, on threads that are not ours."""
        with self._lock:
            self._settle()
            self._threads[kind] += change

    def attach(self, env: Any) -> None:
        """Time the sandbox and the coach of an environment of ours from now on."""
        episode = env.unwrapped.episode
        episode._settle = _Timed(episode, "_settle", "coach", self)._settle
        execution = episode._execution
        execution.sandbox = _Timed(execution.sandbox, "run", "sandbox", self)
        episode._coach = _Timed(episode._coach, "judge", "coach", self)

    def shares(self) -> dict[str, float]:
        """Share of each kind in the wall time of all phases."""
        totals: dict[str, float] = dict.fromkeys(KINDS, 0.0)
        for cells in self.seconds.values():
            for kind, spent in cells.items():
                totals[kind] += spent
        wall = sum(totals.values())
        return {kind: spent / wall if wall else 0.0 for kind, spent in totals.items()}

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
        """Book the time since the last change to what was going on."""
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


class _Timed:
    """Stands in for ``inner``; the time of its method ``name`` counts as ``kind``."""

    def __init__(self, inner: Any, name: str, kind: str, watch: Stopwatch) -> None:
        self._inner = inner

        def timed(*args: Any, **options: Any) -> Any:
            with watch.working(kind):
                return method(*args, **options)

        method = getattr(inner, name)
        setattr(self, name, timed)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)
