"""A folder per episode that hostile code writes into, and that the host only ever touches with care.

The host opens by directory descriptors, component by component, without following links; it reads regular
files only, never unpickles and never executes. The folder is created when first needed.
"""

from __future__ import annotations

import dataclasses
import errno
import os
import shutil
import stat
import tempfile
import weakref
from collections.abc import Sequence
from pathlib import Path

from mappa_env.errors import WorkspaceError
from mappa_env.trail import Snapshot, compare, scan, shown
from mappa_env.types import FileChange

MAX_COPY_BYTES = 512 * 2**20
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_NOFOLLOW | os.O_DIRECTORY | os.O_CLOEXEC


class Workspace:
    """``trail`` lists every change so far; ``present`` maps each existing file to its last change."""

    def __init__(self) -> None:
        self.trail: list[FileChange] = []
        self.present: dict[str, FileChange] = {}
        self._root: Path | None = None
        self._snapshot: Snapshot | None = None
        self._finalizer: weakref.finalize[[str], Workspace] | None = None

    def __enter__(self) -> Workspace:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    @property
    def path(self) -> Path:
        """The folder code runs in; created (mode 0700 above it) on first use."""
        if self._root is None:
            base = tempfile.mkdtemp(prefix="mappa-")
            self._finalizer = weakref.finalize(self, remove_tree, base)
            os.mkdir(os.path.join(base, "ws"))
            self._root = Path(base)
        return self._root / "ws"

    @property
    def scratch(self) -> Path:
        """A folder for temporary files of the code, outside of the trail."""
        folder = self.path.parent / "tmp"
        folder.mkdir(exist_ok=True)
        return folder

    def put(self, name: str, content: bytes | Path) -> None:
        """Place a file of the task. Raises WorkspaceError for a name that leaves the workspace."""
        parts = _parts(name)
        target = self.path.joinpath(*parts)
        target.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, Path):
            shutil.copyfile(content, target)
        else:
            target.write_bytes(content)
        self._snapshot = None
        size = target.stat().st_size
        self.present[name] = FileChange(name, "created", size, "")

    def scan(self) -> Snapshot:
        """The state of every entry now; digests are carried over from the last scan where nothing moved."""
        self._snapshot = scan(str(self.path), self._snapshot)
        return self._snapshot

    @property
    def snapshot(self) -> Snapshot:
        """The last scan, or a new one: what survivors of an action do later counts for the next one."""
        return self._snapshot or self.scan()

    def changes(self, before: Snapshot, after: Snapshot) -> tuple[FileChange, ...]:
        """What happened between two scans, sorted by path."""
        return compare(before, after)

    def record(self, changes: Sequence[FileChange], agent: str, step: int) -> None:
        """Append ``changes`` to the trail as ``agent``'s doing in action ``step``."""
        for change in changes:
            change = dataclasses.replace(change, agent=agent, step=step)
            self.trail.append(change)
            if change.op == "deleted":
                self.present.pop(change.path, None)
            else:
                self.present[change.path] = change

    def read(self, name: str, max_bytes: int = 2**20) -> bytes:
        """Content of a regular file. Raises WorkspaceError for anything else or more than ``max_bytes``."""
        parts = _parts(name)
        folder = os.open(self.path, _FOLDER)
        try:
            for part in parts[:-1]:
                deeper = os.open(part, _FOLDER, dir_fd=folder)
                os.close(folder)
                folder = deeper
            file = os.open(parts[-1], _READ, dir_fd=folder)
        except OSError as error:
            raise WorkspaceError(f"{shown(name)} cannot be read: {_why(error)}.") from None
        finally:
            os.close(folder)
        with os.fdopen(file, "rb") as stream:
            info = os.fstat(stream.fileno())
            if not stat.S_ISREG(info.st_mode):
                raise WorkspaceError(f"{shown(name)} is not a regular file.")
            if info.st_size > max_bytes:
                raise WorkspaceError(f"{shown(name)} has {info.st_size} bytes; at most {max_bytes} are read.")
            return stream.read(max_bytes)

    def copy(self) -> Workspace:
        """A scratch copy that holds the regular files only (links, devices and the like stay behind)."""
        twin = Workspace()
        budget = MAX_COPY_BYTES
        for name, entry in self.scan().entries.items():
            if entry.kind != "file" or not _plain(name):
                continue
            budget -= entry.size
            if budget < 0:
                raise WorkspaceError(f"the workspace holds more than {MAX_COPY_BYTES} bytes: not copied.")
            try:
                twin.put(name, self.read(name, MAX_COPY_BYTES))
            except WorkspaceError:
                continue  # unreadable by mode: the copy lacks it, as its reader would
        return twin

    def remove(self) -> None:
        """Delete the folder, whatever is in it. May be called twice."""
        if self._finalizer is not None:
            self._finalizer()
        self._root = self._finalizer = self._snapshot = None
        self.present, self.trail = {}, []


def remove_tree(root: str) -> None:
    """Delete a tree without recursion and without following links, whatever its depth and modes.

    Folders found in a folder are first moved up beside it, so no path ever gets long and no stack deep.
    """
    try:
        top = os.open(root, _FOLDER)
    except FileNotFoundError:
        return
    moved = 0
    try:
        while folders := _unlink_files(top):
            for name in folders:
                os.chmod(name, 0o700, dir_fd=top)
                folder = os.open(name, _FOLDER, dir_fd=top)
                try:
                    for inner in _unlink_files(folder):
                        moved += 1
                        os.chmod(inner, 0o700, dir_fd=folder)
                        os.rename(inner, f".mappa-{moved}-{os.getpid()}", src_dir_fd=folder, dst_dir_fd=top)
                finally:
                    os.close(folder)
                os.rmdir(name, dir_fd=top)
    finally:
        os.close(top)
    os.rmdir(root)


def _unlink_files(folder: int) -> list[str]:
    """Unlink everything in ``folder`` but its folders, whose names are returned."""
    with os.scandir(folder) as entries:
        found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    for name, is_folder in found:
        if not is_folder:
            os.unlink(name, dir_fd=folder)
    return [name for name, is_folder in found if is_folder]


def _parts(name: str) -> list[str]:
    if not _plain(name):
        raise WorkspaceError(f"{shown(name)} does not stay inside the workspace.")
    return name.split("/")


def _plain(name: str) -> bool:
    return bool(name) and "\0" not in name and not any(p in ("", ".", "..") for p in name.split("/"))


def _why(error: OSError) -> str:
    if error.errno in (errno.ELOOP, errno.ENOTDIR):
        return "it is, or lies behind, a link"
    return os.strerror(error.errno or 0).lower()
