"""Where the files of a workspace live: a plain folder here, or whatever a sandbox offers instead."""

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
from mappa_env.folders import ensure_folder, give_tree, remove_tree

_NAME = re.compile(r"mappa-(\d+)-(\d+)-\w+")


class Home(Protocol):
    """The host reaches the files through ``root`` alone, one component at a time, and follows no link."""

    @property
    def root(self) -> Path | int:
        """The folder itself: a path, or a descriptor where no path of the host leads to it."""
        ...

    @property
    def owner(self) -> int | None:
        """The user that new files are given to, so that the code may change them; None: the host's own."""
        ...

    @property
    def path(self) -> Path:
        """Where processes of the host find the folder. Raises WorkspaceError where they cannot."""
        ...

    @property
    def scratch(self) -> Path:
        """A folder for temporary files of an action, beside ``path``. Raises WorkspaceError as ``path``."""
        ...

    def ready(self) -> None:
        """Make ``root`` whole again where an action broke it, with an empty ``scratch``."""
        ...

    def remove(self) -> None:
        """Delete everything. May be called twice."""
        ...


class FolderHome:
    """A folder under the system's temporary directory, mode 0700 above it.

    It goes with the object, at the latest with the interpreter; what a killed process left is swept by the
    next one of the same user.
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
        return self.root

    @property
    def scratch(self) -> Path:
        return self._base / "tmp"

    def ready(self) -> None:
        ensure_folder(self._base)
        for each in (self.root, self.scratch):
            ensure_folder(each)
            if self.owner is not None:
                os.chown(each, self.owner, self.owner, follow_symlinks=False)
        if os.listdir(self.scratch):
            remove_tree(self.scratch)
            self.ready()

    def give(self, owner: int | None) -> None:
        """Hand every file to ``owner``, so that code of that user may change it."""
        if owner is None or owner == self.owner:
            return
        os.chmod(self._base, 0o711)  # that user must pass through, and sees nothing on the way
        give_tree(self.root, owner)
        self.owner = owner

    def remove(self) -> None:
        self._finalizer()


def only_by_descriptor() -> WorkspaceError:
    """The error of a home that has no path."""
    return WorkspaceError(
        "these files live inside another sandbox and have no path here: open the workspace with the "
        "open_workspace() of the sandbox that runs the code."
    )


def _discard(base: str, owner: int) -> None:
    """Delete a workspace's folder, but not from a fork that merely inherited the object."""
    if os.getpid() != owner:
        return
    try:
        remove_tree(base)
    except OSError as error:  # a mount or an immutable file: the agent's doing must not end the run
        warnings.warn(f"{base} could not be removed ({error}): delete it.", SandboxWarning, stacklevel=2)


@functools.cache
def _sweep(folder: str, process: int) -> None:
    """Once per process and folder: remove what dead processes of this user left in ``folder``."""
    for name in os.listdir(folder):
        match = _NAME.fullmatch(name)
        if match is None or _started(int(match[1])) == int(match[2]):
            continue
        path = os.path.join(folder, name)
        with contextlib.suppress(OSError):  # another user's, or another process is sweeping too
            if os.lstat(path).st_uid == os.getuid():
                remove_tree(path)


def _started(pid: int) -> int:
    """When ``pid`` started, in clock ticks since boot; 0 if there is no such process."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rsplit(b")", 1)[1].split()[19])
    except OSError:
        return 0
