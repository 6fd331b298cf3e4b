"""The memory controller of cgroup v1. See https://docs.kernel.org/admin-guide/cgroup-v1/memory.html."""

from __future__ import annotations

import contextlib

from mappa_env.sandbox.local.cgroup.leaf import Leaf


class LeafV1(Leaf):
    """Limits memory. The kernel kills one process at a time: who sees ``oom_kills`` ends the others."""

    def limit(self, memory_bytes: int, processes: int) -> None:
        """Set a hard limit of memory, without swap; processes are another controller's, and not limited."""
        self._write("memory.limit_in_bytes", str(memory_bytes))
        with contextlib.suppress(FileNotFoundError):  # the kernel does not account for swap
            self._write("memory.memsw.limit_in_bytes", str(memory_bytes))

    def oom_kills(self) -> int:
        """How many processes the kernel has killed because the leaf's memory was full (from Linux 4.13)."""
        return self._count("memory.oom_control", "oom_kill")
