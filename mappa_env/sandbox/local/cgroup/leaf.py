"""The cgroup of one action, and the place where those of a pool are made."""

from __future__ import annotations

import abc
import contextlib
import errno
import os
import secrets
import signal
import time
from pathlib import Path

_PREFIX = "mappa-"
_STALE_S = 3600.0  # actions enter their leaf at once, so an empty leaf this old is abandoned


class Leaf(abc.ABC):
    """The cgroup of one action. A removed leaf counts as unused and empty."""

    def __init__(self, parent: int) -> None:
        self._parent, self._name = parent, _PREFIX + secrets.token_hex(8)
        os.mkdir(self._name, dir_fd=parent)

    @staticmethod  # noqa: B027  (few versions have anything to do)
    def prepare(place: Path) -> None:
        """Make ``place`` hold leaves. Raises OSError if it cannot."""

    @abc.abstractmethod
    def limit(self, memory_bytes: int, processes: int) -> None:
        """Set hard limits, without swap; ``processes`` includes threads. Raises OSError."""

    @abc.abstractmethod
    def oom_kills(self) -> int:
        """How many of its processes the kernel has killed for want of memory, its own or that of a parent."""

    @abc.abstractmethod
    def peak(self) -> int:
        """The most bytes of memory that it has had at once; 0 if the kernel does not tell."""

    @abc.abstractmethod
    def filled(self) -> bool:
        """Whether its own limit of memory has been reached, not only that of a parent."""

    def entrance(self) -> int:
        """A descriptor that moves a process into the leaf when it writes `0`; the caller closes it."""
        return self._open("cgroup.procs", os.O_WRONLY)

    def add(self, pid: int) -> None:
        """Move a process and its future children into the leaf. Raises ProcessLookupError if it has ended."""
        self._write("cgroup.procs", str(pid))

    def kill(self) -> None:
        """Kill every process in the leaf; with cgroup v2 from Linux 5.14 including concurrent forks."""
        try:
            self._write("cgroup.kill", "1")
        except FileNotFoundError:
            for pid in self._read("cgroup.procs").split():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)

    def remove(self, deadline_s: float = 10.0) -> None:
        """Kill what is left and remove the leaf. Raises OSError if it is still busy after `deadline_s`."""
        end = time.monotonic() + deadline_s
        while True:
            self.kill()
            try:
                return os.rmdir(self._name, dir_fd=self._parent)
            except FileNotFoundError:
                return
            except OSError as error:
                if error.errno != errno.EBUSY or time.monotonic() > end:
                    raise
            time.sleep(0.002)  # killed processes are still exiting

    def _open(self, file: str, flags: int) -> int:
        return os.open(f"{self._name}/{file}", flags | os.O_CLOEXEC, dir_fd=self._parent)

    def _write(self, file: str, value: str) -> None:
        with open(self._open(file, os.O_WRONLY), "w") as out:
            out.write(value)

    def _read(self, file: str) -> str:
        try:
            with open(self._open(file, os.O_RDONLY)) as text:
                return text.read()
        except FileNotFoundError:
            return ""

    def _count(self, file: str, name: str) -> int:
        """The number after ``name`` in a file of such lines; 0 without one."""
        lines = (line.split() for line in self._read(file).splitlines())
        return next((int(number) for found, number in lines if found == name), 0)


class Leaves:
    """Makes leaves of one ``kind`` in the cgroup ``place``. Raises OSError if it cannot hold any."""

    def __init__(self, place: Path, kind: type[Leaf]) -> None:
        kind.prepare(place)
        self.place, self.kind = place, kind
        self._fd = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        for entry in list(os.scandir(self._fd)):
            if entry.name.startswith(_PREFIX) and time.time() - entry.stat().st_ctime > _STALE_S:
                with contextlib.suppress(OSError):  # still in use, already removed, or another user's
                    os.rmdir(entry.name, dir_fd=self._fd)

    def new(self, memory_bytes: int, processes: int) -> Leaf:
        """Create a leaf with hard limits and without swap; see ``Leaf.limit``."""
        leaf = self.kind(self._fd)
        try:
            leaf.limit(memory_bytes, processes)
        except OSError:
            leaf.remove()
            raise
        return leaf

    def close(self) -> None:
        """Close the descriptor; does not remove leaves."""
        os.close(self._fd)
