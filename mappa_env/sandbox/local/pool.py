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
from mappa_env.sandbox.local.inside import wire
from mappa_env.sandbox.local.isolation_levels import IsolationLevel, start_best
from mappa_env.sandbox.local.link import Link, Retired

RECYCLE = 1000
"""Actions after which a zygote is replaced by a fresh one."""
_RETRIES = 5
_STARTS = 2
"""Actions per core that may start at the same time; more would only slow each other down."""


class Pool:
    """Distributes actions to zygotes. At most ``concurrency`` run at once; others wait. Thread-safe."""

    def __init__(self, level: IsolationLevel, concurrency: int) -> None:
        self.level = level
        self.leaves = cgroup.find()
        """One control group per action; None if this process may make none."""
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
        """Wait for a free slot. Call the yielded function when the action runs, to let the next one start."""
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
    ) -> wire.Report | None:
        """Run one action on a zygote; if the zygote dies before the action begins, use another.

        Returns the zygote's report, or None if the zygote died during the action. All processes of the action
        are then dead. Raises SandboxError if the action never began.
        """
        for _ in range(_RETRIES):
            link = self._take()
            finished = False
            try:
                report = exchange.run(link, request, code, leaf, started)
                finished = True
                self._retire(link, report["grown"])
                return report
            except (Unborn, Retired):
                finished = True
            except Lost as lost:
                self._give_up(link)
                finished = True
                if lost.begun:
                    return None
            except SandboxError:
                finished = True
                self._retire(link, grown=False)
                raise
            finally:
                with self._lock:
                    link.busy -= 1
                if not finished:  # interrupted: our end is closed, so the zygote ends the action
                    started()
        raise SandboxError(f"The sandbox's process died before the action began, {_RETRIES} times.")

    def open_place(self, size: int, inodes: int) -> tuple[int, int, int | None]:
        """Open a new workspace; returns its number, a descriptor of its root, and the owner of its files."""
        number = next(self._numbers)
        with self._lock:
            self._drop()
            _, (root,) = self.level.template.ask(do="open", number=number, size=size, inodes=inodes)
        return number, root, self.level.template.user

    def resize_place(self, number: int, size: int, inodes: int) -> None:
        """Set the quota of a workspace: bytes and entries."""
        with self._lock:
            self.level.template.ask(do="resize", number=number, size=size, inodes=inodes)

    def drop_place(self, number: int) -> None:
        """Free the memory of a workspace, now or with the next request.

        The garbage collector may call this during another request of the same thread.
        """
        self._dropped.append(number)
        if self._lock.acquire(blocking=False):
            try:
                self._drop()
            finally:
                self._lock.release()

    def _drop(self) -> None:
        """Free the dropped workspaces; those of a dead template are gone already."""
        while self._dropped:
            number = self._dropped.popleft()
            if not self._closed and self.level.template.alive:
                self.level.template.ask(do="drop", number=number)

    @property
    def usable(self) -> bool:
        """Whether this process can still run actions here."""
        return not self._closed and self._process == os.getpid() and self.level.template.alive

    def close(self) -> None:
        """End every process of the pool; does nothing in a fork that inherited it. May be called twice."""
        with self._lock:
            if self._closed or self._process != os.getpid():
                return
            self._closed = True
            for link in self._links:
                link.give_up()
            self.level.template.close()
            if self.leaves is not None:
                self.leaves.close()
        atexit.unregister(self.close)

    def _take(self) -> Link:
        """The least busy zygote, or a new one if all are busy and a core is free."""
        with self._lock:
            self._links = [link for link in self._links if link.usable]
            link = min(self._links, key=lambda link: (link.busy, link.served), default=None)
            if link is None or (link.busy and len(self._links) < self._cores):
                answer, (fd,) = self.level.template.ask(do="zygote")
                link = Link(answer["pid"], fd)
                self._links.append(link)
            link.busy += 1
            link.served += 1
            return link

    def _retire(self, link: Link, grown: bool) -> None:
        if grown or link.served >= RECYCLE:
            link.close()  # not under the pool's lock: it waits for a request that is being sent

    def _give_up(self, link: Link) -> None:
        """Close the link, and wait until the zygote and all its actions are dead."""
        link.give_up()
        with self._lock:
            self.level.template.ask(do="settle", pid=link.pid)


class Pools:
    """One pool per interpreter, level and concurrency; a fork of the process starts its own."""

    def __init__(self) -> None:
        self._pools: dict[tuple[str, str | None, int], Pool] = {}
        self._lock = threading.Lock()

    def get(self, python: str, level: str | None, concurrency: int) -> Pool:
        """Return the pool, starting it if necessary, which takes seconds. Raises SandboxError."""
        with self._lock:
            pool = self._pools.get((python, level, concurrency))
            if pool is None or not pool.usable:
                if pool is not None:
                    pool.close()
                pool = self._pools[python, level, concurrency] = Pool(start_best(python, level), concurrency)
            return pool
