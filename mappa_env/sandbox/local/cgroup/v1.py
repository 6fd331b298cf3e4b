"""The memory controller of cgroup v1. See https://docs.kernel.org/admin-guide/cgroup-v1/memory.html."""

from __future__ import annotations

import contextlib
import os

from mappa_env.sandbox.local.cgroup.leaf import Leaf

_CHARGED = 2**18
"""Bytes that the kernel charges at once."""


class LeafV1(Leaf):
    """Limits memory. The kernel kills one process at a time: who sees ``oom_kills`` ends the others."""

    def limit(self, memory_bytes: int, processes: int) -> None:
        """Set a hard limit of memory, without swap; processes are another controller's, and not limited."""
        self._write("memory.limit_in_bytes", str(memory_bytes))
        with contextlib.suppress(FileNotFoundError):  # the kernel does not account for swap
            self._write("memory.memsw.limit_in_bytes", str(memory_bytes))

    def oom_kills(self) -> int:
        """How many of its processes the kernel has killed for want of memory (from Linux 4.13)."""
        return self._count("memory.oom_control", "oom_kill")

    def entrance(self) -> int:
        """See ``Leaf.entrance``; for a process with one thread, which the one that enters is.

        To move a whole process may wait for tens of milliseconds, until all processors have been idle once.
        """
        return self._open("tasks", os.O_WRONLY)

    def peak(self) -> int:
        """The most bytes of memory, and of memory and swap."""
        files = ("memory.max_usage_in_bytes", "memory.memsw.max_usage_in_bytes")
        return max(int(self._read(file) or 0) for file in files)

    def filled(self) -> bool:
        """Whether its limit has been reached, even if the kernel could free enough of it, such as caches."""
        # Not by memory.failcnt: recent kernels do not count where memory and swap together reach the limit.
        limit = int(self._read("memory.limit_in_bytes") or 0)
        return limit > 0 and self.peak() > limit - _CHARGED
