"""Scans a folder that hostile code wrote. Never blocks and never follows links."""

from __future__ import annotations

import ctypes
import functools
import os
import stat
import sys
import time
from collections import deque
from dataclasses import replace

from mappa_env.workspace.digests import Digester
from mappa_env.workspace.nofollow import Root, accessible, closed, open_file, walk
from mappa_env.workspace.pruning import strip, strip_folder
from mappa_env.workspace.snapshot import MAX_ENTRIES, Entry, Snapshot, too_deep

_CLOCK_NS = 20_000_000
"""Before Linux 6.13, two writes this close together may have the same timestamp."""
_TMPFS = 0x01021994
_GONE = (FileNotFoundError, NotADirectoryError, PermissionError)
_KINDS = {
    stat.S_IFREG: "file",
    stat.S_IFDIR: "dir",
    stat.S_IFLNK: "link",
    stat.S_IFIFO: "fifo",
    stat.S_IFSOCK: "socket",
    stat.S_IFCHR: "device",
    stat.S_IFBLK: "device",
}


def usage(root: Root) -> int:
    """Disk usage of the entries below ``root`` in bytes; what lies too deep for a scan exceeds any quota."""
    disk: dict[int, int] = {}
    folders, seen = deque([""]), 0
    while folders and seen < MAX_ENTRIES:
        above = folders.popleft()
        try:
            folder = walk(root, _parts(above))
        except _GONE:
            continue
        try:
            for name in _names(folder):
                path, seen = _below(above, name), seen + 1
                if too_deep(path):
                    return sys.maxsize
                try:
                    info = os.stat(name, dir_fd=folder, follow_symlinks=False)
                except FileNotFoundError:
                    continue
                disk[info.st_ino] = info.st_blocks * 512
                if stat.S_ISDIR(info.st_mode):
                    folders.append(path)
        finally:
            os.close(folder)
    return sum(disk.values())


def scan(root: Root, before: Snapshot | None = None, top_mode: int | None = None) -> Snapshot:
    """Walk ``root``, digest its files, restore access, strip attributes. A missing root counts as empty.

    Upper levels come first. Entries of ``before`` are always listed, new ones up to the limits; without
    ``before`` only depth and length are limited, for the files are the host's own. ``top_mode``: the mode of
    ``root`` as the code left it, if the caller gave access back. Raises OSError if the host fails, for
    instance for lack of descriptors.
    """
    scanner = _Scanner(before)
    folders = deque([""])
    while folders:
        above = folders.popleft()
        try:
            folder = walk(root, _parts(above))
        except _GONE as error:  # removed, or replaced by a link
            if isinstance(error, PermissionError) and not above:
                raise  # the host's own problem: the files are there
            scanner.skipped += bool(above)
            continue
        try:
            if not above:
                scanner.begin(folder, top_mode)
            for name in _names(folder):
                path = _below(above, name)
                entry = scanner.look(folder, name, path)
                if entry is not None and entry.kind == "dir":
                    folders.append(path)
        finally:
            os.close(folder)
    return scanner.snapshot()


def _names(folder: int) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except FileNotFoundError:  # removed after it was opened
        return []


def _parts(path: str) -> list[str]:
    return path.split("/") if path else []


def _below(above: str, name: str) -> str:
    return f"{above}/{name}" if above else name


class _Scanner:
    def __init__(self, before: Snapshot | None) -> None:
        self.skipped = 0
        self._taken_ns = time.time_ns()
        self._before = before or Snapshot()
        self._most = MAX_ENTRIES if before is not None else sys.maxsize
        self._new: list[str] = []
        self._entries: dict[str, Entry] = {}
        self._digester = Digester()
        self._disk: dict[int, int] = {}
        self._top: Entry | None = None
        self._silent = self._noatime = False

    def begin(self, top: int, mode: int | None) -> None:
        """Look at the folder that everything lies in."""
        self._silent = _changes_silently(top)
        self._noatime = sys.platform == "linux" and bool(os.fstatvfs(top).f_flag & os.ST_NOATIME)
        info = os.fstat(top)
        was = self._before.top
        if self._suspect(was, info) and strip(top):
            info = os.fstat(top)
        self._top = replace(self._entry("dir", info), left_mode=mode)

    def snapshot(self) -> Snapshot:
        surplus = min(len(self._entries) - self._most, len(self._new))
        for path in (
            self._new[len(self._new) - surplus :] if surplus > 0 else ()
        ):  # folders precede their files
            del self._entries[path]
            self.skipped += 1
        return Snapshot(self._entries, self.skipped, sum(self._disk.values()), self._taken_ns, self._top)

    def look(self, folder: int, name: str, path: str) -> Entry | None:
        """Add one name; None if it is gone, or new and beyond a limit."""
        was = self._before.entries.get(path)
        if was is None and (len(self._new) >= self._most or too_deep(path)):
            self.skipped += 1
            return None
        try:
            info = os.stat(name, dir_fd=folder, follow_symlinks=False)
            mode = info.st_mode if closed(info) else None
            if mode is not None:
                info = accessible(name, folder)
            suspect = self._suspect(was, info)
            if suspect and stat.S_ISDIR(info.st_mode):
                info = strip_folder(name, folder, info)
        except FileNotFoundError:
            return None
        kind = _KINDS.get(stat.S_IFMT(info.st_mode), "device")
        if kind == "file" and (suspect or (self._silent and was is not None and was.digested)):
            entry = self._file(folder, name, was, info, suspect)
        else:
            entry = was if was is not None and not suspect else self._entry(kind, info)
        if entry.left_mode != mode:
            entry = replace(entry, left_mode=mode)
        self._disk[info.st_ino] = info.st_blocks * 512
        self._entries[path] = entry
        if was is None:
            self._new.append(path)
        return entry

    def _suspect(self, was: Entry | None, info: os.stat_result) -> bool:
        """Whether the entry is new, has changed, or may have changed within one tick of the clock."""
        if was is None or was.signature != _signature(info):
            return True
        return (
            self._accessed(info) != was.accessed_ns or info.st_ctime_ns + _CLOCK_NS >= self._before.taken_ns
        )

    def _file(self, folder: int, name: str, was: Entry | None, info: os.stat_result, suspect: bool) -> Entry:
        try:
            with open_file(name, folder) as stream:
                file = stream.fileno()
                if suspect and strip(file):
                    info = os.fstat(file)
                sha256 = self._digester.digest(file, info)
        except OSError as error:
            sha256 = f"skipped: {error}"
        entry = Entry("file", _signature(info), sha256)
        if was is not None and was.signature == entry.signature and not (was.digested and entry.digested):
            return was  # a digest that the limits excluded, now or before, is not a change
        return entry

    def _entry(self, kind: str, info: os.stat_result) -> Entry:
        return Entry(kind, _signature(info), "", self._accessed(info))

    def _accessed(self, info: os.stat_result) -> int:
        return info.st_atime_ns if self._noatime and stat.S_ISDIR(info.st_mode) else 0


def _signature(info: os.stat_result) -> tuple[int, ...]:
    return (
        info.st_mode,
        info.st_ino,
        info.st_size,
        info.st_mtime_ns,
        info.st_ctime_ns,
        info.st_nlink,
        info.st_blocks,
    )


def _changes_silently(folder: int) -> bool:
    """Whether its files can change without a trace in their status: tmpfs misses writes through a mapping."""
    if sys.platform != "linux":
        return False
    answer = (ctypes.c_long * 32)()
    return _libc().fstatfs(folder, answer) == 0 and answer[0] == _TMPFS


@functools.cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None)
