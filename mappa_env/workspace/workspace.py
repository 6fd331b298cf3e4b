"""A folder per episode into which hostile code writes.

The host reads only regular files, never unpickles and never executes. The folder
(``mappa_env.workspace.storage``) is created on first use, so an unused workspace costs nothing.
"""

from __future__ import annotations

import dataclasses
import hashlib
import io
import os
import stat
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import BinaryIO

from mappa_env.errors import WorkspaceError
from mappa_env.types import FileChange, Use
from mappa_env.workspace.changes import apply, compare
from mappa_env.workspace.copying import copy_files
from mappa_env.workspace.digests import CHUNK
from mappa_env.workspace.escaping import meant, parts, shown
from mappa_env.workspace.keeping import LARGEST, comparable, keeps
from mappa_env.workspace.nofollow import Root, create_file, open_file, walk, why
from mappa_env.workspace.preview import Preview, preview
from mappa_env.workspace.pruning import prune
from mappa_env.workspace.scanning import scan
from mappa_env.workspace.snapshot import MAX_DEPTH, MAX_PATH, Snapshot, too_deep
from mappa_env.workspace.storage import FolderStorage, Storage

_MOST_KNOWN = 2**20
"""Bytes of contents that a workspace remembers, to compare later ones with them."""


class Workspace:
    """``history`` lists every file change so far; ``present`` maps each existing file to its last change.

    Paths in both, and those that ``read`` takes, are escaped by ``mappa_env.workspace.escaping.shown``.
    ``given_bytes`` is the size of the files that the host put there. Not thread-safe.
    """

    def __init__(self, make_storage: Callable[[], Storage] = FolderStorage) -> None:
        """The first file or action calls ``make_storage``."""
        self.history: list[FileChange] = []
        self.present: dict[str, FileChange] = {}
        self.given_bytes = 0
        self._makers: dict[str, str] = {}
        self._known: dict[str, bytes] = {}
        self._make_storage = make_storage
        self._storage: Storage | None = None
        self._snapshot: Snapshot | None = None

    def __enter__(self) -> Workspace:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    @property
    def storage(self) -> Storage:
        """The storage of the files; created on first use."""
        if self._storage is None:
            self._storage = self._make_storage()
        return self._storage

    @property
    def path(self) -> Path:
        """The folder that code runs in. Raises WorkspaceError if the storage has no path."""
        return self.storage.path

    @property
    def scratch(self) -> Path:
        """An action's folder for temporary files, next to ``path`` and outside the file history."""
        return self.storage.scratch

    def ready(self) -> Path:
        """Restore the folder if an earlier action damaged it, and empty ``scratch``; return ``path``."""
        self.storage.ready()
        return self.path

    def put(self, name: str, content: bytes | Path) -> None:
        """Place a task file: bytes, or a copy of the host's regular file at that path.

        Raises WorkspaceError for a name that is not printable, leaves the workspace or is too deep or long,
        and for an unreadable source.
        """
        if shown(name) != name:
            raise WorkspaceError(f"{shown(name)!r} cannot name a task file: use printable characters only.")
        if too_deep(name):
            raise WorkspaceError(
                f"{name[:200]!r} cannot name a task file: at most {MAX_DEPTH} levels and {MAX_PATH} "
                "characters are listed."
            )
        with _source(content) as source:
            size, digest = self._write(name, source)
        self._snapshot = None
        self.given_bytes += size
        self.present[name] = FileChange(name, "created", size, digest)

    def scan(self) -> Snapshot:
        """Scan the folder now, and restore what an action broke.

        New entries that the limits of a scan exclude are deleted, so that nothing unlisted reaches the next
        action; ``skipped`` counts them.
        """
        if self._storage is None:
            self._snapshot = Snapshot()
            return self._snapshot
        root = self._storage.root
        mode = _mode(root)
        self._storage.ready()
        found = scan(root, self._snapshot, mode)
        if found.skipped and self._snapshot is not None:
            folders = [path for path, entry in found.entries.items() if entry.kind == "dir"]
            prune(root, folders, found.entries)
            found = dataclasses.replace(_as_left(scan(root, found, mode), found), skipped=found.skipped)
        self._snapshot = found
        return found

    @property
    def snapshot(self) -> Snapshot:
        """The last scan, or a new one if there is none.

        Changes that surviving processes make after a scan count as the next action's.
        """
        return self._snapshot or self.scan()

    def changes(self, before: Snapshot, after: Snapshot) -> tuple[FileChange, ...]:
        """Changes between two scans, sorted by path; the last scan has found the files as they are now."""
        return tuple(map(self._compared, compare(before, after)))

    def _compared(self, change: FileChange) -> FileChange:
        """``change``, and whether it keeps what its file held after the last action that changed that."""
        if change.kind != "file" or change.op == "deleted" or not comparable(change.path, change.size):
            self._known.pop(change.path, None)
            return change
        was = self._known.pop(change.path, None)
        try:
            now = self.read(change.path, LARGEST)
        except WorkspaceError:
            return change
        if sum(map(len, self._known.values())) + len(now) <= _MOST_KNOWN:
            self._known[change.path] = now
        same_file = was is not None and change.op == "modified"
        return dataclasses.replace(change, keeps=keeps(change.path, was or b"", now)) if same_file else change

    def record(self, changes: Sequence[FileChange], agent: str, step: int) -> None:
        """Append ``changes``, made by ``agent`` in action ``step``, to the file history."""
        for change in changes:
            change = dataclasses.replace(change, agent=agent, step=step)
            self.history.append(change)
            apply(change, self.present)
            if change.kind != "dir" or change.op == "deleted":
                self._makers.pop(change.path, None)
            elif change.op != "modified":
                self._makers[change.path] = agent

    def use(self) -> dict[str, Use]:
        """What each agent's files and folders take of the quota, by the last scan.

        A file with several names counts once. Before the first scan there are only the task's files.
        """
        if self._snapshot is None:
            return {"": Use(self.given_bytes, len(self.present))}
        sizes, counts, seen = Counter[str](), Counter[str](), set[int]()
        for path, entry in self._snapshot.entries.items():
            name = shown(path)
            change = self.present.get(name)
            agent = change.agent if change is not None else self._makers.get(name, "")
            counts[agent] += 1
            if entry.inode not in seen:
                seen.add(entry.inode)
                sizes[agent] += entry.disk_bytes
        return {agent: Use(sizes[agent], number) for agent, number in counts.items()}

    def read(self, name: str, max_bytes: int = 2**20) -> bytes:
        """Content of a regular file. Raises WorkspaceError for anything else or more than ``max_bytes``."""
        with self._open(meant(name)) as stream:
            size = os.fstat(stream.fileno()).st_size
            data = stream.read(max_bytes + 1) if size <= max_bytes else b""
        if max(size, len(data)) > max_bytes:
            raise WorkspaceError(f"{name} has {size} bytes; at most {max_bytes} are read.")
        return data

    def head(self, name: str, most: int) -> bytes:
        """The first ``most`` bytes of a regular file. Raises WorkspaceError for anything else."""
        with self._open(meant(name)) as stream:
            return stream.read(most)

    def preview(self, name: str, max_bytes: int = 2**16) -> Preview:
        """Preview the first ``max_bytes`` of a file without unpickling. Raises WorkspaceError."""
        with self._open(meant(name)) as stream:
            return preview(name, stream.read(max_bytes), os.fstat(stream.fileno()).st_size)

    def copy(self) -> Workspace:
        """A temporary copy of the regular files and folders in the last scan: see ``copy_files``."""
        twin = Workspace(self._make_storage)
        twin.given_bytes = copy_files(self.storage.root, self.snapshot, twin.storage)
        twin.present, twin._makers = dict(self.present), dict(self._makers)
        twin._known = dict(self._known)
        return twin

    def fork(self) -> Workspace:
        """The same files, links, folders and file history once more, for another course of the episode.

        Leaves out what ``copy_files`` does, which then is not ``present`` either.
        """
        twin = Workspace(self._make_storage)
        twin.history, twin.given_bytes = list(self.history), self.given_bytes
        twin._known = dict(self._known)
        if self._storage is not None:
            copy_files(self.storage.root, self.snapshot, twin.storage, links=True)
            there = {shown(path) for path in twin.scan().entries}
            twin.present = {path: change for path, change in self.present.items() if path in there}
            twin._makers = {path: agent for path, agent in self._makers.items() if path in there}
        return twin

    def move(self, make_storage: Callable[[], Storage]) -> None:
        """Move the files that ``copy`` would take to a new storage; keep the file history."""
        storage = make_storage()
        copy_files(self.storage.root, self.snapshot, storage)
        self.storage.remove()
        self._make_storage, self._storage, self._snapshot = make_storage, storage, None

    def restore(self, copy: Workspace) -> None:
        """Hold the files of ``copy`` again, which is then as removed; keep the file history."""
        self.storage.remove()
        self._storage, self._snapshot = copy.storage, None
        copy._storage = None
        copy.remove()

    def remove(self) -> None:
        """Delete the folder and reset the workspace. May be called twice."""
        if self._storage is not None:
            self._storage.remove()
        self._storage = self._snapshot = None
        self.present, self._makers, self.history, self.given_bytes = {}, {}, [], 0
        self._known = {}

    def _open(self, name: str) -> BinaryIO:
        *above, last = parts(name)
        try:
            folder = walk(self.storage.root, above)
        except OSError as error:
            raise WorkspaceError(f"{shown(name)} cannot be read: {why(error)}.") from None
        try:
            return open_file(last, folder)
        except WorkspaceError as error:
            raise WorkspaceError(f"{shown(name)} cannot be read: {error}.") from None
        finally:
            os.close(folder)

    def _write(self, name: str, source: BinaryIO) -> tuple[int, str]:
        """Copy ``source`` to ``name``; returns size and digest."""
        *above, last = parts(name)
        size, digest = 0, hashlib.sha256()
        storage = self.storage
        try:
            folder = walk(storage.root, above, make=True, owner=storage.owner)
            try:
                with create_file(last, folder, storage.owner) as target:
                    while data := source.read(CHUNK):
                        target.write(data)
                        digest.update(data)
                        size += len(data)
            finally:
                os.close(folder)
        except OSError as error:
            raise WorkspaceError(f"{shown(name)} cannot be written: {why(error)}.") from None
        return size, digest.hexdigest()


def _as_left(snapshot: Snapshot, first: Snapshot) -> Snapshot:
    """``snapshot`` with the modes that the ``first`` scan found, where it saw an entry too."""
    entries = {
        path: dataclasses.replace(entry, left_mode=first.entries[path].left_mode)
        if path in first.entries
        else entry
        for path, entry in snapshot.entries.items()
    }
    return dataclasses.replace(snapshot, entries=entries)


def _mode(root: Root) -> int | None:
    """The mode of the workspace's own folder; None if it is missing or its parent is closed."""
    try:
        return (os.fstat(root) if isinstance(root, int) else os.lstat(root)).st_mode
    except OSError:
        return None


def _source(content: bytes | Path) -> BinaryIO:
    if isinstance(content, bytes):
        return io.BytesIO(content)
    try:
        stream = os.fdopen(os.open(content, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb")
    except OSError as error:
        raise WorkspaceError(f"{content} cannot be read: {why(error)}.") from None
    if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
        stream.close()
        raise WorkspaceError(f"{content} is not a regular file.")
    return stream
