"""The storage of a workspace inside the sandbox: a tmpfs with a hard quota, held by a descriptor."""

from __future__ import annotations

import os
import weakref
from pathlib import Path
from typing import TYPE_CHECKING

from mappa_env.workspace.nofollow import reopened
from mappa_env.workspace.snapshot import MAX_ENTRIES
from mappa_env.workspace.storage import only_by_descriptor

if TYPE_CHECKING:
    from mappa_env.sandbox.local.pool import Pool

INODES = MAX_ENTRIES + 1
"""Entries that a scan lists, and the folder itself: nothing can hide beyond the scan's limits."""
_ROOM = 8 * 2**30
"""Quota in bytes while the host places the task's files; the first action sets the real one."""
_SLACK = 2**20


class TmpfsStorage:
    """See ``mappa_env.workspace.storage.Storage``. ``number`` identifies the mount to the sandbox."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self.number, self.root, self.owner = pool.open_place(_ROOM, INODES)
        self._quota = _ROOM
        self._finalizer = weakref.finalize(self, _drop, pool, self.number, self.root, os.getpid())

    @property
    def path(self) -> Path:
        """Raises WorkspaceError: the host has no path to these files."""
        raise only_by_descriptor()

    @property
    def scratch(self) -> Path:
        """Raises WorkspaceError, as ``path`` does."""
        raise only_by_descriptor()

    @property
    def pool(self) -> Pool:
        """The pool whose template holds the mount."""
        return self._pool

    def ready(self) -> None:
        """Open the folder if an action closed it. It can neither remove its mount nor reach beyond it."""
        reopened(self.root)

    def limit(self, size: int) -> None:
        """Set the quota to ``size`` bytes, or to what is there already if that is more."""
        now = os.fstatvfs(self.root)
        size = max(size, (now.f_blocks - now.f_bfree) * now.f_frsize)
        if size != self._quota:
            self._pool.resize_place(self.number, size, INODES)
            self._quota = size

    @property
    def full(self) -> bool:
        """Whether less than 1 MiB, or fewer than 8 entries, of the quota are left."""
        left = os.fstatvfs(self.root)
        return left.f_bfree * left.f_frsize < _SLACK or left.f_ffree < 8

    def remove(self) -> None:
        """Free the memory. May be called twice."""
        self._finalizer()


def _drop(pool: Pool, number: int, root: int, process: int) -> None:
    os.close(root)
    if os.getpid() == process:  # a fork merely inherited the object
        pool.drop_place(number)
