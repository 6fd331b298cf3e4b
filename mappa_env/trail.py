"""What happened to a folder: scan it before and after, and compare. Never blocks or follows links."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field

from mappa_env.types import FileChange, FileOp

MAX_ENTRIES = 20_000
MAX_DEPTH = 64
MAX_HASH_FILE = 256 * 2**20
MAX_HASH_TOTAL = 1024 * 2**20
_KINDS = {
    stat.S_IFREG: "file", stat.S_IFDIR: "dir", stat.S_IFLNK: "link", stat.S_IFIFO: "fifo",
    stat.S_IFSOCK: "socket", stat.S_IFCHR: "device", stat.S_IFBLK: "device",
}  # fmt: skip
_FOLDER = os.O_RDONLY | os.O_NOFOLLOW | os.O_DIRECTORY | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Entry:
    """``signature`` is (mode, inode, size, mtime_ns, ctime_ns, links, blocks): equal means untouched."""

    kind: str
    signature: tuple[int, ...]
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """``entries`` by path; ``skipped`` counts what lies beyond the limits on entries and depth."""

    entries: Mapping[str, Entry] = field(default_factory=dict)
    skipped: int = 0
    disk_bytes: int = 0


def scan(root: str, before: Snapshot | None = None) -> Snapshot:
    """Walk ``root`` and digest what is new or changed since ``before``."""
    known = before.entries if before else {}
    entries: dict[str, Entry] = {}
    skipped, disk, budget = 0, 0, MAX_HASH_TOTAL
    stack: list[tuple[str, int]] = [("", 0)]
    while stack:
        prefix, depth = stack.pop()
        folder = _open_folder(root, prefix)
        if folder is None:
            skipped += 1
            continue
        try:
            for name in sorted(os.listdir(folder)):
                if len(entries) >= MAX_ENTRIES:
                    skipped += 1
                    continue
                try:
                    info = os.stat(name, dir_fd=folder, follow_symlinks=False)
                except FileNotFoundError:
                    continue
                path = f"{prefix}{name}"
                kind = _KINDS.get(stat.S_IFMT(info.st_mode), "device")
                mark = (info.st_mode, info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns,
                        info.st_nlink, info.st_blocks)  # fmt: skip
                disk += info.st_blocks * 512
                old = known.get(path)
                if old is not None and old.signature == mark:
                    entries[path] = old
                else:
                    digest = ""
                    if kind == "file":
                        digest = _digest(folder, name, info.st_blocks * 512, info.st_size, budget)
                        budget -= 0 if digest.startswith("skipped") else info.st_size
                    entries[path] = Entry(kind, mark, info.st_size, digest)
                if kind == "dir":
                    if depth + 1 < MAX_DEPTH:
                        stack.append((f"{path}/", depth + 1))
                    else:
                        skipped += 1
        finally:
            os.close(folder)
    return Snapshot(entries, skipped, disk)


def compare(before: Snapshot, after: Snapshot) -> tuple[FileChange, ...]:
    """Changes from ``before`` to ``after`` by path; of folders only what they hold is listed."""
    old, new = before.entries, after.entries
    gone = {path for path in old if path not in new and old[path].kind != "dir"}
    came = {path for path in new if path not in old and new[path].kind != "dir"}
    by_inode = {old[path].signature[1]: path for path in gone}
    changes = []
    for path in came:
        source = by_inode.get(new[path].signature[1])
        same = source is not None and old[source].sha256 == new[path].sha256
        if same and source in gone and new[path].kind == "file":
            gone.discard(source)
            changes.append(_change(path, "renamed", new[path]))
        else:
            changes.append(_change(path, "created", new[path]))
    changes.extend(_change(path, "deleted", old[path]) for path in gone)
    for path in old.keys() & new.keys():
        was, now = old[path], new[path]
        if was.kind != now.kind:
            changes.append(_change(path, "type_changed", now))
        elif now.kind != "dir" and was.signature != now.signature:
            changes.append(_change(path, "modified", now))
    return tuple(sorted(changes, key=lambda change: change.path))


def shown(name: str) -> str:
    """A name fit for display: control characters and undecodable bytes are escaped."""
    return "".join(c if c.isprintable() else c.encode("utf-8", "surrogateescape").hex(":") for c in name)


def _change(path: str, op: FileOp, entry: Entry) -> FileChange:
    return FileChange(shown(path), op, entry.size, entry.sha256, entry.kind)


def _open_folder(root: str, prefix: str) -> int | None:
    """Open a folder component by component; None when it went away, turned into a link or is closed to us."""
    folder = os.open(root, _FOLDER)
    for part in prefix.split("/")[:-1]:
        try:
            deeper = os.open(part, _FOLDER, dir_fd=folder)
        except OSError:
            return None
        finally:
            os.close(folder)
        folder = deeper
    return folder


def _digest(folder: int, name: str, disk: int, size: int, budget: int) -> str:
    if size > MAX_HASH_FILE or size > budget:
        return "skipped: size"
    if size > disk + 2**20:
        return "skipped: sparse"
    try:
        file = os.open(name, _READ, dir_fd=folder)
    except OSError as error:
        return f"skipped: {os.strerror(error.errno or 0).lower()}"
    with os.fdopen(file, "rb") as stream:
        if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
            return "skipped: not a file"
        return hashlib.file_digest(stream, "sha256").hexdigest()
