"""cgroup v2: a leaf per action, if a subtree with memory and pids controllers was delegated to this process.

See https://docs.kernel.org/admin-guide/cgroup-v2.html. Without a subtree only polling bounds an action.
"""

import contextlib
import errno
import os
import secrets
import signal
import time
from pathlib import Path
from typing import NamedTuple

_PREFIX = "mappa-"
_STALE_S = 3600.0  # actions enter their leaf at once, so an empty leaf this old is abandoned


class Usage(NamedTuple):
    """The kernel's counters for one leaf."""

    peak_bytes: int | None  # None before Linux 5.19
    oom_kills: int


def find(mounts: Path = Path("/proc/self/mountinfo"), own: Path = Path("/proc/self/cgroup")) -> Path | None:
    """The nearest cgroup above this process that can hold leaves with memory and pids; None without one.

    A cgroup that contains processes cannot enable controllers for its children. So start this process in a
    subgroup of the delegated cgroup (systemd: Delegate=yes, DelegateSubgroup=main).
    """
    lines = [line.split() for line in mounts.read_text().splitlines()]
    mount = next((fields for fields in lines if fields[fields.index("-") + 1] == "cgroup2"), None)
    path = next((line[3:] for line in own.read_text().splitlines() if line.startswith("0::")), "..")
    if mount is None or ".." in Path(path).parts or not Path(path).is_relative_to(mount[3]):
        return None
    below, top = Path(path).relative_to(mount[3]), Path(mount[4])
    return next((top / place for place in (below, *below.parents) if _usable(top / place)), None)


def _usable(place: Path) -> bool:
    if not os.access(place / "cgroup.procs", os.W_OK):  # required for moving processes into a leaf
        return False
    try:
        with contextlib.closing(Leaves(place)) as leaves:
            leaves.new(memory_bytes=1 << 30, processes=8).remove()
    except OSError:
        return False
    return True


class Leaves:
    """The leaves of one pool, in the cgroup `place`. Raises OSError if `place` cannot hold leaves."""

    def __init__(self, place: Path) -> None:
        if not {"memory", "pids"} <= set((place / "cgroup.subtree_control").read_text().split()):
            (place / "cgroup.subtree_control").write_text("+memory +pids")
        self._fd = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        for entry in list(os.scandir(self._fd)):
            if entry.name.startswith(_PREFIX) and time.time() - entry.stat().st_ctime > _STALE_S:
                with contextlib.suppress(OSError):  # still in use, already removed, or another user's
                    os.rmdir(entry.name, dir_fd=self._fd)

    def new(self, memory_bytes: int, processes: int) -> "Leaf":
        """Create a leaf with hard limits and without swap; `processes` includes threads."""
        leaf = Leaf(self._fd)
        try:
            leaf.write("memory.max", str(memory_bytes))
            leaf.write("memory.oom.group", "1")  # kill all processes of the action together
            leaf.write("pids.max", str(processes))
            with contextlib.suppress(FileNotFoundError):  # the kernel does not account for swap
                leaf.write("memory.swap.max", "0")
        except OSError:
            leaf.remove()
            raise
        return leaf

    def close(self) -> None:
        """Close the descriptor; does not remove leaves."""
        os.close(self._fd)


class Leaf:
    """The cgroup of one action. A removed leaf counts as unused and empty."""

    def __init__(self, parent: int) -> None:
        self._parent, self._name = parent, _PREFIX + secrets.token_hex(8)
        os.mkdir(self._name, dir_fd=parent)

    def entrance(self) -> int:
        """A descriptor that moves a process into the leaf when it writes `0`; the caller closes it."""
        return self._open("cgroup.procs", os.O_WRONLY)

    def _open(self, file: str, flags: int) -> int:
        return os.open(f"{self._name}/{file}", flags | os.O_CLOEXEC, dir_fd=self._parent)

    def write(self, file: str, value: str) -> None:
        """Write one of the leaf's control files. Raises OSError."""
        with open(self._open(file, os.O_WRONLY), "w") as out:
            out.write(value)

    def _read(self, file: str) -> str:
        try:
            with open(self._open(file, os.O_RDONLY)) as text:
                return text.read()
        except FileNotFoundError:
            return ""

    def add(self, pid: int) -> None:
        """Move a process and its future children into the leaf. Raises ProcessLookupError if it has ended."""
        self.write("cgroup.procs", str(pid))

    def usage(self) -> Usage:
        """Peak memory and number of OOM kills."""
        events = dict(line.split() for line in self._read("memory.events").splitlines())
        peak = self._read("memory.peak")
        return Usage(int(peak) if peak else None, int(events.get("oom_kill", 0)))

    def kill(self) -> None:
        """Kill every process in the leaf; from Linux 5.14 including concurrent forks."""
        try:
            self.write("cgroup.kill", "1")
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
