"""What happened to a folder: scan it before and after, and compare. Never blocks or follows links."""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from mappa_env.folders import open_file, walk
from mappa_env.names import shown
from mappa_env.types import FileChange, FileOp

MAX_ENTRIES = 5_000
MAX_DEPTH = 32
MAX_PATH = 1_024
"""Characters of the longest path that is listed."""
MAX_HASH_FILE = 256 * 2**20
MAX_HASH_TOTAL = 1024 * 2**20
_CLOCK_NS = 20_000_000
"""Before Linux 6.13 two writes this close together may carry the same times."""
_CHUNK = 2**16
_KINDS = {
    stat.S_IFREG: "file", stat.S_IFDIR: "dir", stat.S_IFLNK: "link", stat.S_IFIFO: "fifo",
    stat.S_IFSOCK: "socket", stat.S_IFCHR: "device", stat.S_IFBLK: "device",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Entry:
    """``signature``: mode, inode, size, mtime_ns, ctime_ns, links, blocks. Code can forge all but ctime."""

    kind: str
    signature: tuple[int, ...]
    sha256: str

    @property
    def size(self) -> int:
        return self.signature[2]

    @property
    def digested(self) -> bool:
        return len(self.sha256) == 64

    @property
    def changed_ns(self) -> int:
        return self.signature[4]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """``entries`` by path; ``skipped`` counts what lies beyond the limits on entries, depth and length.

    ``disk_bytes`` is what the listed entries occupy on disk; ``taken_ns`` is when the scan began.
    """

    entries: Mapping[str, Entry] = field(default_factory=dict)
    skipped: int = 0
    disk_bytes: int = 0
    taken_ns: int = 0


Root = str | os.PathLike[str] | int
"""A folder by its path or by a descriptor of it."""


def usage(root: Root) -> int:
    """Bytes that the entries below ``root`` occupy on disk, as far as the limits of ``scan`` reach."""
    return scan(root, digests=False).disk_bytes


def scan(root: Root, before: Snapshot | None = None, *, digests: bool = True) -> Snapshot:
    """Walk ``root`` and digest what is new or changed since ``before``. A root that is gone is empty.

    Upper levels come first, and paths of ``before`` are looked up even when a flood of names hides them.
    Raises OSError where the host fails (no descriptor left, say): that is no news about the files.
    """
    scanner = _Scanner(before or Snapshot(), MAX_HASH_TOTAL if digests else -1)
    folders: deque[tuple[str, ...]] = deque([()])
    while folders:
        above = folders.popleft()
        try:
            folder = walk(root, above)
        except (FileNotFoundError, NotADirectoryError, PermissionError):  # gone, or replaced by a link
            scanner.skipped += bool(above)
            continue
        try:
            for name in _names(folder):
                entry = scanner.look(folder, above, name)
                if entry is not None and entry.kind == "dir":
                    folders.append((*above, name))
        finally:
            os.close(folder)
    if scanner.skipped:
        scanner.look_again(root)
    return scanner.snapshot()


def _names(folder: int) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except FileNotFoundError:  # removed since it was opened
        return []


class _Scanner:
    def __init__(self, before: Snapshot, budget: int) -> None:
        self.skipped = 0
        self._taken_ns = time.time_ns()
        self._before = before
        self._entries: dict[str, Entry] = {}
        self._budget = budget
        self._disk: dict[int, int] = {}

    def snapshot(self) -> Snapshot:
        return Snapshot(self._entries, self.skipped, sum(self._disk.values()), self._taken_ns)

    def look(self, folder: int, above: tuple[str, ...], name: str) -> Entry | None:
        """Take one name in; None when it is gone or beyond a limit."""
        path = "/".join((*above, name))
        if len(self._entries) >= MAX_ENTRIES or len(above) >= MAX_DEPTH or len(path) > MAX_PATH:
            self.skipped += 1
            return None
        return self._add(folder, name, path)

    def look_again(self, root: Root) -> None:
        """Known paths that the limits kept out this time: still there, or really gone?"""
        for path in self._before.entries.keys() - self._entries.keys():
            *above, name = path.split("/")
            try:
                folder = walk(root, above)
            except (FileNotFoundError, NotADirectoryError, PermissionError):
                continue
            try:
                self._add(folder, name, path)
            finally:
                os.close(folder)

    def _add(self, folder: int, name: str, path: str) -> Entry | None:
        try:
            info = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            return None
        kind = _KINDS.get(stat.S_IFMT(info.st_mode), "device")
        signature = (info.st_mode, info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns,
                     info.st_nlink, info.st_blocks)  # fmt: skip
        self._disk[info.st_ino] = info.st_blocks * 512
        entry = self._before.entries.get(path)
        if entry is None or entry.signature != signature:
            entry = Entry(kind, signature, self._digest(folder, name, info) if kind == "file" else "")
        elif entry.digested and info.st_ctime_ns + _CLOCK_NS >= self._before.taken_ns:
            again = Entry(kind, signature, self._digest(folder, name, info))
            entry = again if again.digested else entry  # where the limits strike now, nothing has moved
        self._entries[path] = entry
        return entry

    def _digest(self, folder: int, name: str, info: os.stat_result) -> str:
        if info.st_size > min(MAX_HASH_FILE, self._budget):
            return "skipped: size"
        try:
            with open_file(name, folder) as stream:
                digest, left = hashlib.sha256(), info.st_size
                while left > 0 and (data := stream.read(min(left, _CHUNK))):  # a file that grows has an end
                    digest.update(data)
                    left -= len(data)
        except OSError as error:
            return f"skipped: {error}"
        self._budget -= info.st_size
        return digest.hexdigest()


def compare(before: Snapshot, after: Snapshot) -> tuple[FileChange, ...]:
    """Changes from ``before`` to ``after`` by path. Folders count only where they replace a file.

    A rename is two changes: ``renamed`` for the new path, ``deleted`` for the old one.
    """
    old, new = before.entries, after.entries
    changes: list[FileChange] = []
    gone: dict[int, Entry] = {}
    for path, was in old.items():
        now = new.get(path)
        if now is None:
            if was.kind != "dir":
                gone[was.signature[1]] = was
                changes.append(_change(path, "deleted", was))
        elif was.kind != now.kind:
            changes.append(_change(path, "type_changed", now))
        elif now.kind != "dir" and was != now:
            changes.append(_change(path, "modified", now))
    for path, now in new.items():
        if path in old or now.kind == "dir":
            continue
        if before.skipped and now.changed_ns < before.taken_ns:
            continue  # it was there before, beyond the limits
        source = gone.get(now.signature[1])
        changes.append(_change(path, "renamed" if source and _same(source, now) else "created", now))
    return tuple(sorted(changes, key=lambda change: change.path))


def _same(was: Entry, now: Entry) -> bool:
    """One inode with one content: a rename keeps inode, size and mtime, and changes ctime."""
    return was.signature[1:4] == now.signature[1:4] and (was.kind, was.sha256) == (now.kind, now.sha256)


def _change(path: str, op: FileOp, entry: Entry) -> FileChange:
    digest = entry.sha256 or f"skipped: {entry.kind}"
    return FileChange(shown(path), op, entry.size, digest, entry.kind)
