"""A folder per episode that hostile code writes into, and that the host only ever touches with care.

The host reads regular files only, never unpickles and never executes. The folder (``mappa_env.homes``) is
made when first needed: a workspace that nobody uses costs nothing.
"""

from __future__ import annotations

import dataclasses
import hashlib
import io
import os
import stat
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import BinaryIO

from mappa_env.errors import WorkspaceError
from mappa_env.folders import create_file, open_file, walk, why
from mappa_env.homes import FolderHome, Home
from mappa_env.names import meant, parts, shown
from mappa_env.preview import Preview, preview
from mappa_env.trail import Snapshot, compare, scan
from mappa_env.types import FileChange

MAX_COPY_BYTES = 512 * 2**20
_CHUNK = 2**16


class Workspace:
    """``trail`` lists every change so far; ``present`` maps each existing file to its last change.

    Paths in both, and those that ``read`` takes, are in the escaped form of ``mappa_env.names.shown``.
    ``given_bytes`` is the size of the files that the host put. Used by one thread at a time.
    """

    def __init__(self, make_home: Callable[[], Home] = FolderHome) -> None:
        """``make_home`` is called when the first file or action needs a place."""
        self.trail: list[FileChange] = []
        self.present: dict[str, FileChange] = {}
        self.given_bytes = 0
        self._make_home = make_home
        self._home: Home | None = None
        self._snapshot: Snapshot | None = None

    def __enter__(self) -> Workspace:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    @property
    def home(self) -> Home:
        """Where the files live; made on first use."""
        if self._home is None:
            self._home = self._make_home()
        return self._home

    @property
    def path(self) -> Path:
        """The folder code runs in. Raises WorkspaceError where the home has none."""
        return self.home.path

    @property
    def scratch(self) -> Path:
        """The folder for temporary files of an action, beside ``path`` and outside of the trail."""
        return self.home.scratch

    def ready(self) -> Path:
        """``path``, made whole again where an earlier action broke it, with an empty ``scratch``."""
        self.home.ready()
        return self.path

    def put(self, name: str, content: bytes | Path) -> None:
        """Place a file of the task: bytes, or the host's regular file of that path.

        Raises WorkspaceError for a name that is not plain text or leaves the workspace, and for a source
        that cannot be read.
        """
        if shown(name) != name:
            raise WorkspaceError(f"{shown(name)!r} is no name for a task file: use printable characters.")
        with _source(content) as source:
            size, digest = self._write(name, source)
        self._snapshot = None
        self.given_bytes += size
        self.present[name] = FileChange(name, "created", size, digest)

    def scan(self) -> Snapshot:
        """The state of every entry now; digests are carried over from the last scan where nothing moved."""
        self._snapshot = scan(self._home.root, self._snapshot) if self._home else Snapshot()
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
            if change.op == "deleted" or change.kind == "dir":
                self.present.pop(change.path, None)
            else:
                self.present[change.path] = change

    def read(self, name: str, max_bytes: int = 2**20) -> bytes:
        """Content of a regular file. Raises WorkspaceError for anything else or more than ``max_bytes``."""
        with self._open(meant(name)) as stream:
            size = os.fstat(stream.fileno()).st_size
            data = stream.read(max_bytes + 1) if size <= max_bytes else b""
        if max(size, len(data)) > max_bytes:
            raise WorkspaceError(f"{name} has {size} bytes; at most {max_bytes} are read.")
        return data

    def preview(self, name: str, max_bytes: int = 2**16) -> Preview:
        """What the first ``max_bytes`` of a file show, without unpickling. Raises WorkspaceError."""
        with self._open(meant(name)) as stream:
            return preview(name, stream.read(max_bytes), os.fstat(stream.fileno()).st_size)

    def copy(self) -> Workspace:
        """A scratch copy of the regular files, as the last scan saw them.

        Links and special files stay behind, and so does what is unreadable by mode or exceeds
        MAX_COPY_BYTES in total: the copy lacks it, as a reader of the workspace would.
        """
        twin = Workspace(self._make_home)
        self._pour_into(twin)
        twin.present = dict(self.present)
        return twin

    def move(self, make_home: Callable[[], Home]) -> None:
        """Leave the home for a new one, with the files that ``copy`` would take, and keep trail and all."""
        twin = Workspace(make_home)
        self._pour_into(twin)
        self.home.remove()
        self._make_home, self._home, self._snapshot = make_home, twin.home, None

    def _pour_into(self, twin: Workspace) -> None:
        budget = MAX_COPY_BYTES
        for name, entry in self.snapshot.entries.items():
            if entry.kind != "file" or entry.size > budget:
                continue
            try:
                with self._open(name) as stream:
                    size, _ = twin._write(name, stream, limit=budget)
            except WorkspaceError:
                continue
            budget -= size
            twin.given_bytes += size

    def remove(self) -> None:
        """Delete the folder, whatever is in it; the workspace is then as new. May be called twice."""
        if self._home is not None:
            self._home.remove()
        self._home = self._snapshot = None
        self.present, self.trail, self.given_bytes = {}, [], 0

    def _open(self, name: str) -> BinaryIO:
        *above, last = parts(name)
        try:
            folder = walk(self.home.root, above)
        except OSError as error:
            raise WorkspaceError(f"{shown(name)} cannot be read: {why(error)}.") from None
        try:
            return open_file(last, folder)
        except WorkspaceError as error:
            raise WorkspaceError(f"{shown(name)} cannot be read: {error}.") from None
        finally:
            os.close(folder)

    def _write(self, name: str, source: BinaryIO, limit: int | None = None) -> tuple[int, str]:
        """Copy ``source`` to ``name``; returns its size and digest. At most ``limit`` bytes are taken."""
        *above, last = parts(name)
        size, digest = 0, hashlib.sha256()
        home = self.home
        try:
            folder = walk(home.root, above, make=True, owner=home.owner)
            try:
                with create_file(last, folder, home.owner) as target:
                    while data := source.read(_CHUNK if limit is None else min(_CHUNK, limit - size)):
                        target.write(data)
                        digest.update(data)
                        size += len(data)
            finally:
                os.close(folder)
        except OSError as error:
            raise WorkspaceError(f"{shown(name)} cannot be written: {why(error)}.") from None
        return size, digest.hexdigest()


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
