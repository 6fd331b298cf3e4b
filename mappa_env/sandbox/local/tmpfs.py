"""A workspace's home inside the sandbox: a tmpfs with a hard quota, which the host holds by a descriptor."""

from __future__ import annotations

import os
import weakref
from pathlib import Path
from typing import TYPE_CHECKING

from mappa_env.homes import only_by_descriptor
from mappa_env.trail import MAX_ENTRIES

if TYPE_CHECKING:
    from mappa_env.sandbox.local.pool import Pool

INODES = MAX_ENTRIES + 1
"""As many entries as a scan looks at, and the folder itself: nothing can hide beyond the scan's limits."""
_ROOM = 8 * 2**30
"""While the host places the task's files; the first action sets the real quota."""
_SLACK = 2**20


class TmpfsHome:
    """See ``mappa_env.homes.Home``. ``number`` names the place to the sandbox."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self.number, self.root, self.owner = pool.open_place(_ROOM, INODES)
        self._quota = _ROOM
        self._finalizer = weakref.finalize(self, _drop, pool, self.number, self.root, os.getpid())

    @property
    def path(self) -> Path:
        raise only_by_descriptor()

    @property
    def scratch(self) -> Path:
        raise only_by_descriptor()

    @property
    def pool(self) -> Pool:
        return self._pool

    def ready(self) -> None:
        """Nothing to mend: an action can neither remove the root of its mount nor reach beyond it."""

    def limit(self, size: int) -> None:
        """Set the quota to ``size`` bytes, or to what is there already if that is more."""
        now = os.fstatvfs(self.root)
        size = max(size, (now.f_blocks - now.f_bfree) * now.f_frsize)
        if size != self._quota:
            self._pool.resize_place(self.number, size, INODES)
            self._quota = size

    @property
    def full(self) -> bool:
        """Whether the quota, of bytes or of entries, is used up to the last MiB or few entries."""
        left = os.fstatvfs(self.root)
        return left.f_bfree * left.f_frsize < _SLACK or left.f_ffree < 8

    def remove(self) -> None:
        self._finalizer()


def _drop(pool: Pool, number: int, root: int, process: int) -> None:
    os.close(root)
    if os.getpid() == process:  # a fork merely inherited the object
        pool.drop_place(number)
