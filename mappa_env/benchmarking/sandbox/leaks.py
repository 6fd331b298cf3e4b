"""What a process holds of its machine, and whether something of it stays."""

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
    """``rss_kb`` after a collection, with what malloc keeps for later given back."""

    rss_kb: int
    files: Counter[str]
    """Open descriptors by what they point to, with the numbers of sockets and pipes left out."""
    mounts: frozenset[str]
    zombies: int
    temporary: frozenset[str]

    def beyond(self, before: Holdings) -> list[str]:
        """Everything but memory that is held now and was not before, in words."""
        return [
            *(f"descriptor: {name} ({more} more)" for name, more in (self.files - before.files).items()),
            *(f"mount: {line}" for line in sorted(self.mounts - before.mounts)),
            *([f"{self.zombies} zombies"] if self.zombies else []),
            *(f"file: {name}" for name in sorted(self.temporary - before.temporary)),
        ]


def holdings() -> Holdings:
    """Of this process, at a moment when none of its threads is at work."""
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
    """From now on every orphan among the descendants becomes a child of this process: none gets away."""
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")
