"""cgroup v2. See https://docs.kernel.org/admin-guide/cgroup-v2.html."""

from __future__ import annotations

import contextlib
from pathlib import Path

from mappa_env.sandbox.local.cgroup.leaf import Leaf


class LeafV2(Leaf):
    """Limits memory and processes. The kernel kills all processes of an action together."""

    @staticmethod
    def prepare(place: Path) -> None:
        """Hand the controllers down, which a cgroup that holds processes cannot. Raises OSError."""
        if not {"memory", "pids"} <= set((place / "cgroup.subtree_control").read_text().split()):
            (place / "cgroup.subtree_control").write_text("+memory +pids")

    def limit(self, memory_bytes: int, processes: int) -> None:
        """Set both limits, without swap. Raises OSError."""
        self._write("memory.max", str(memory_bytes))
        self._write("memory.oom.group", "1")
        self._write("pids.max", str(processes))
        with contextlib.suppress(FileNotFoundError):  # the kernel does not account for swap
            self._write("memory.swap.max", "0")

    def oom_kills(self) -> int:
        """How many of its processes the kernel has killed for want of memory."""
        return self._count("memory.events", "oom_kill")

    def peak(self) -> int:
        """The most bytes of memory (from Linux 5.19)."""
        return int(self._read("memory.peak") or 0)

    def filled(self) -> bool:
        """Whether its limit has been reached, and nothing could be freed."""
        return self._count("memory.events", "oom") > 0
