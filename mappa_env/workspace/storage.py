"""The storage of a workspace: a plain folder, or what a sandbox provides instead."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import tempfile
import warnings
import weakref
from pathlib import Path
from typing import Protocol

from mappa_env.errors import SandboxWarning, WorkspaceError
from mappa_env.workspace.nofollow import ensure_folder, give_tree, remove_tree

_NAME = re.compile(r"mappa-(\d+)-(\d+)-\w+")


class Storage(Protocol):
    """The host accesses files only through ``root``, one path component at a time, and follows no link."""

    @property
    def root(self) -> Path | int:
        """The folder: its path, or a descriptor if the host has no path to it."""
        ...

    @property
    def owner(self) -> int | None:
        """The user who owns new files, so that the code may change them; None: the host's own."""
        ...

    @property
    def path(self) -> Path:
        """The folder's path on the host. Raises WorkspaceError if there is none."""
        ...

    @property
    def scratch(self) -> Path:
        """An action's folder for temporary files, next to ``path``. Raises WorkspaceError if none exists."""
        ...

    def ready(self) -> None:
        """Restore ``root`` if an action damaged it, and empty ``scratch``."""
        ...

    def remove(self) -> None:
        """Delete everything. May be called twice."""
        ...


class FolderStorage:
    """A folder in a private (0700) folder under the system's temporary directory.

    It is removed with the object, at the latest when the interpreter exits. The next process of the same user
    removes what a killed process left.
    """

    def __init__(self, owner: int | None = None) -> None:
        _sweep(tempfile.gettempdir(), os.getpid())
        self._base = Path(tempfile.mkdtemp(prefix=f"mappa-{os.getpid()}-{_started(os.getpid())}-"))
        self._finalizer = weakref.finalize(self, _discard, str(self._base), os.getpid())
        self.root = self._base / "ws"
        self.owner: int | None = None
        os.mkdir(self.root)
        self.give(owner)

    @property
    def path(self) -> Path:
        """The folder that code runs in."""
        return self.root

    @property
    def scratch(self) -> Path:
        """The folder for temporary files of an action."""
        return self._base / "tmp"

    def ready(self) -> None:
        """Restore both folders, and empty ``scratch``."""
        ensure_folder(self._base)
        for each in (self.root, self.scratch):
            ensure_folder(each)
            if self.owner not in (None, os.lstat(each).st_uid):  # chown would look like the agent's change
                os.chown(each, self.owner, self.owner, follow_symlinks=False)
        if os.listdir(self.scratch):
            remove_tree(self.scratch)
            self.ready()

    def give(self, owner: int | None) -> bool:
        """Make ``owner`` the owner of every file, so that code of that user may change it.

        Returns whether anything changed: then scan, or the change counts as the next action's.
        """
        if owner is None or owner == self.owner:
            return False
        os.chmod(self._base, 0o711)  # the user may traverse this folder, but not list it
        give_tree(self.root, owner)
        self.owner = owner
        return True

    def remove(self) -> None:
        """Remove everything; may be called twice."""
        self._finalizer()


def only_by_descriptor() -> WorkspaceError:
    """The error of a storage that has no path."""
    return WorkspaceError(
        "these files live inside another sandbox and have no path here: open the workspace with the "
        "open_workspace() of the sandbox that runs the code."
    )


def _discard(base: str, owner: int) -> None:
    """Delete a workspace's folder, except from a fork that merely inherited the object."""
    if os.getpid() != owner:
        return
    try:
        remove_tree(base)
    except OSError as error:  # a mount or an immutable file: an agent must not end the run
        warnings.warn(f"{base} could not be removed ({error}): delete it.", SandboxWarning, stacklevel=2)


@functools.cache
def _sweep(folder: str, process: int) -> None:
    """Remove what dead processes of this user left in ``folder``; once per process and folder."""
    for name in os.listdir(folder):
        match = _NAME.fullmatch(name)
        if match is None or _started(int(match[1])) == int(match[2]):
            continue
        path = os.path.join(folder, name)
        with contextlib.suppress(OSError):  # another user's, or another process removes it too
            if os.lstat(path).st_uid == os.getuid():
                remove_tree(path)


def _started(pid: int) -> int:
    """When ``pid`` started, in clock ticks since boot; 0 if there is no such process."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rsplit(b")", 1)[1].split()[19])
    except OSError:
        return 0
