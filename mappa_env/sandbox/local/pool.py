"""The zygotes of one interpreter at one level, shared by every environment of this process."""

from __future__ import annotations

import atexit
import collections
import contextlib
import itertools
import os
import threading
from collections.abc import Callable, Iterator
from typing import Any

from mappa_env.errors import SandboxError
from mappa_env.sandbox.local import cgroup
from mappa_env.sandbox.local.exchange import Exchange, Lost, Unborn
from mappa_env.sandbox.local.ladder import Rung, climb
from mappa_env.sandbox.local.link import Link

RECYCLE = 1000
"""Actions after which a zygote is replaced by a fresh one."""
_RETRIES = 5
_STARTS = 2
"""Actions per core that may be getting going at once: more of them would only slow each other down."""


class Pool:
    """Safe to use from many threads. ``concurrency`` bounds the actions in flight; others wait."""

    def __init__(self, rung: Rung, concurrency: int) -> None:
        self.rung = rung
        place = cgroup.find()
        self.leaves = cgroup.Leaves(place) if place else None
        """Control groups, one per action, where this process was delegated a place for them."""
        self._cores = len(os.sched_getaffinity(0))
        self._links: list[Link] = []
        self._lock = threading.Lock()
        self._slots = threading.BoundedSemaphore(concurrency)
        self._starts = threading.BoundedSemaphore(_STARTS * self._cores)
        self._numbers = itertools.count()
        self._dropped: collections.deque[int] = collections.deque()
        self._process = os.getpid()
        self._closed = False
        atexit.register(self.close)

    @contextlib.contextmanager
    def slot(self) -> Iterator[Callable[[], None]]:
        """Wait for a free slot. The value is called when the action runs by itself, to let the next begin."""
        with self._slots:
            self._starts.acquire()
            gate = threading.Lock()

            def started() -> None:
                if gate.acquire(blocking=False):  # never released: once per action
                    self._starts.release()

            try:
                yield started
            finally:
                started()

    def run(
        self,
        exchange: Exchange,
        request: dict[str, Any],
        code: str,
        leaf: cgroup.Leaf | None,
        started: Callable[[], None],
    ) -> dict[str, Any]:
        """Run one action on some zygote; one that had not begun when its zygote died is given to another.

        Returns the zygote's report, with ``lost`` where a zygote died under the action. Every process of the
        action is dead by then. Raises SandboxError.
        """
        for _ in range(_RETRIES):
            link = self._take()
            finished = False
            try:
                report = exchange.run(link, request, code, leaf, started)
                finished = True
                self._retire(link, report.get("grown", False))
                return report
            except Unborn:
                finished = True
            except Lost as lost:
                self._give_up(link)
                finished = True
                if lost.begun:
                    return {"lost": True}
            finally:
                with self._lock:
                    link.busy -= 1
                if not finished:  # interrupted: our end is closed, so the zygote is ending the action
                    started()
        raise SandboxError(f"{_RETRIES} times a process died before the action could begin.")

    def open_place(self, size: int, inodes: int) -> tuple[int, int, int | None]:
        """A new workspace: its number, a descriptor of its root, and whom its files belong to."""
        number = next(self._numbers)
        with self._lock:
            self._drop()
            _, (root,) = self.rung.template.ask(do="open", number=number, size=size, inodes=inodes)
        return number, root, self.rung.template.user

    def resize_place(self, number: int, size: int, inodes: int) -> None:
        with self._lock:
            self.rung.template.ask(do="resize", number=number, size=size, inodes=inodes)

    def drop_place(self, number: int) -> None:
        """Give the memory of a workspace back, now or with the next request.

        The garbage collector may call this in the midst of a request of this very thread.
        """
        self._dropped.append(number)
        if self._lock.acquire(blocking=False):
            try:
                self._drop()
            finally:
                self._lock.release()

    def _drop(self) -> None:
        """Where the template is gone, its workspaces went with it."""
        while self._dropped:
            number = self._dropped.popleft()
            if not self._closed and self.rung.template.alive:
                self.rung.template.ask(do="drop", number=number)

    @property
    def usable(self) -> bool:
        return not self._closed and self._process == os.getpid() and self.rung.template.alive

    def close(self) -> None:
        """End every process of the pool. A fork that inherited it leaves it alone. May be called twice."""
        with self._lock:
            if self._closed or self._process != os.getpid():
                return
            self._closed = True
            for link in self._links:
                link.close()
            self.rung.template.close()
            if self.leaves is not None:
                self.leaves.close()
        atexit.unregister(self.close)

    def _take(self) -> Link:
        """The least busy zygote; a new one where all are busy and a core is left."""
        with self._lock:
            self._links = [link for link in self._links if link.usable]
            link = min(self._links, key=lambda link: (link.busy, link.served), default=None)
            if link is None or (link.busy and len(self._links) < self._cores):
                answer, (fd,) = self.rung.template.ask(do="zygote")
                link = Link(answer["pid"], fd)
                self._links.append(link)
            link.busy += 1
            link.served += 1
            return link

    def _retire(self, link: Link, grown: bool) -> None:
        if grown or link.served >= RECYCLE:
            with self._lock:
                if link.usable:
                    link.close()

    def _give_up(self, link: Link) -> None:
        """Return when the zygote and whatever ran under it are dead."""
        with self._lock:
            if link.usable:
                link.close()
            self.rung.template.ask(do="settle", pid=link.pid)


class Pools:
    """One pool per interpreter, level and concurrency; a fork of the process starts its own."""

    def __init__(self) -> None:
        self._pools: dict[tuple[str, str | None, int], Pool] = {}
        self._lock = threading.Lock()

    def get(self, python: str, level: str | None, concurrency: int) -> Pool:
        """Started if need be, which takes seconds. Raises SandboxError."""
        with self._lock:
            pool = self._pools.get((python, level, concurrency))
            if pool is None or not pool.usable:
                if pool is not None:
                    pool.close()
                pool = self._pools[python, level, concurrency] = Pool(climb(python, level), concurrency)
            return pool
