"""cgroup v2, where this process was delegated a subtree with memory and pids: a leaf per action.

https://docs.kernel.org/admin-guide/cgroup-v2.html. Without a subtree the watchdog alone bounds an action.
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
_STALE_S = 3600.0  # an action enters its leaf at once: an empty leaf this old has lost its owner


class Usage(NamedTuple):
    peak_bytes: int | None  # None before Linux 5.19
    oom_kills: int


def find(mounts: Path = Path("/proc/self/mountinfo"), own: Path = Path("/proc/self/cgroup")) -> Path | None:
    """The nearest cgroup above this process that takes leaves with memory and pids; None without one.

    A cgroup that holds processes hands no controllers down, so start this one in a sub-group of what is
    delegated (systemd: Delegate=yes, DelegateSubgroup=main).
    """
    lines = [line.split() for line in mounts.read_text().splitlines()]
    mount = next((fields for fields in lines if fields[fields.index("-") + 1] == "cgroup2"), None)
    path = next((line[3:] for line in own.read_text().splitlines() if line.startswith("0::")), "..")
    if mount is None or ".." in Path(path).parts or not Path(path).is_relative_to(mount[3]):
        return None
    below, top = Path(path).relative_to(mount[3]), Path(mount[4])
    return next((top / place for place in (below, *below.parents) if _usable(top / place)), None)


def _usable(place: Path) -> bool:
    if not os.access(place / "cgroup.procs", os.W_OK):  # else no process beside us could move into a leaf
        return False
    try:
        with contextlib.closing(Leaves(place)) as leaves:
            leaves.new(memory_bytes=1 << 30, processes=8).remove()
    except OSError:
        return False
    return True


class Leaves:
    """The leaves of one pool, in the cgroup `place`. Raises OSError where `place` will not do."""

    def __init__(self, place: Path) -> None:
        if not {"memory", "pids"} <= set((place / "cgroup.subtree_control").read_text().split()):
            (place / "cgroup.subtree_control").write_text("+memory +pids")
        self._fd = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        for entry in list(os.scandir(self._fd)):
            if entry.name.startswith(_PREFIX) and time.time() - entry.stat().st_ctime > _STALE_S:
                with contextlib.suppress(OSError):  # in use after all, removed just now, or another user's
                    os.rmdir(entry.name, dir_fd=self._fd)

    def new(self, memory_bytes: int, processes: int) -> "Leaf":
        """A leaf with hard limits, without swap; `processes` counts threads too."""
        leaf = Leaf(self._fd)
        try:
            leaf.write("memory.max", str(memory_bytes))
            leaf.write("memory.oom.group", "1")  # an action dies whole
            leaf.write("pids.max", str(processes))
            with contextlib.suppress(FileNotFoundError):  # the kernel does not account for swap
                leaf.write("memory.swap.max", "0")
        except OSError:
            leaf.remove()
            raise
        return leaf

    def close(self) -> None:
        os.close(self._fd)


class Leaf:
    """The cgroup of one action. A leaf that is gone has used nothing and is killed and removed already."""

    def __init__(self, parent: int) -> None:
        self._parent, self._name = parent, _PREFIX + secrets.token_hex(8)
        os.mkdir(self._name, dir_fd=parent)

    def entrance(self) -> int:
        """A descriptor for a process to write `0` to, which moves it in; the caller closes it."""
        return self._open("cgroup.procs", os.O_WRONLY)

    def _open(self, file: str, flags: int) -> int:
        return os.open(f"{self._name}/{file}", flags | os.O_CLOEXEC, dir_fd=self._parent)

    def write(self, file: str, value: str) -> None:
        with open(self._open(file, os.O_WRONLY), "w") as out:
            out.write(value)

    def _read(self, file: str) -> str:
        try:
            with open(self._open(file, os.O_RDONLY)) as text:
                return text.read()
        except FileNotFoundError:
            return ""

    def add(self, pid: int) -> None:
        """Move a process in; its later children are born here. ProcessLookupError when it has ended."""
        self.write("cgroup.procs", str(pid))

    def usage(self) -> Usage:
        events = dict(line.split() for line in self._read("memory.events").splitlines())
        peak = self._read("memory.peak")
        return Usage(int(peak) if peak else None, int(events.get("oom_kill", 0)))

    def kill(self) -> None:
        """SIGKILL to every process in the leaf, forks in flight included (from Linux 5.14)."""
        try:
            self.write("cgroup.kill", "1")
        except FileNotFoundError:
            for pid in self._read("cgroup.procs").split():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)

    def remove(self, deadline_s: float = 10.0) -> None:
        """Kill what is left and remove the leaf. Raises OSError when it is still busy after `deadline_s`."""
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
            time.sleep(0.002)  # the killed are on their way out
