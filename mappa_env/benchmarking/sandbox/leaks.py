"""Resources that a process holds, and which of them leak."""

from __future__ import annotations

import ctypes
import gc
import os
import tempfile
from collections import Counter
from dataclasses import dataclass

_PR_SET_CHILD_SUBREAPER = 36


@dataclass(frozen=True)
class Holdings:
    """``rss_kb`` is measured after a garbage collection, with malloc's free memory returned to the kernel."""

    rss_kb: int
    files: Counter[str]
    """Open descriptors by target, without the numbers of sockets and pipes."""
    mounts: frozenset[str]
    zombies: int
    temporary: frozenset[str]

    def beyond(self, before: Holdings) -> list[str]:
        """Describe everything except memory that is held now but was not in ``before``."""
        return [
            *(f"descriptor: {name} ({more} more)" for name, more in (self.files - before.files).items()),
            *(f"mount: {line}" for line in sorted(self.mounts - before.mounts)),
            *([f"{self.zombies} zombies"] if self.zombies else []),
            *(f"file: {name}" for name in sorted(self.temporary - before.temporary)),
        ]


def holdings() -> Holdings:
    """The holdings of this process. Call it while no thread is working."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/statm") as file:
        pages = int(file.read().split()[1])
    with open("/proc/self/mountinfo") as file:
        mounts = frozenset(file.read().splitlines())
    files: Counter[str] = Counter()
    for fd in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{fd}")
        except FileNotFoundError:  # the listing itself
            continue
        files[target.split(":[")[0]] += 1
    zombies = sum(state == "Z" for _, state, _ in children(os.getpid()))
    temporary = frozenset(os.listdir(tempfile.gettempdir()))
    return Holdings(pages * os.sysconf("SC_PAGE_SIZE") // 1024, files, mounts, zombies, temporary)


def children(parent: int) -> list[tuple[int, str, str]]:
    """(pid, state, name) of every direct child."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat") as file:
                name, _, rest = file.read().partition("(")[2].rpartition(") ")
        except (FileNotFoundError, ProcessLookupError):
            continue
        state, ppid, *_ = rest.split()
        if int(ppid) == parent:
            found.append((int(pid), state, name))
    return found


def adopt_orphans() -> None:
    """Make this process the subreaper of its descendants. Raises OSError."""
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")
