"""Copies the files of a workspace from one storage to another."""

from __future__ import annotations

import os

from mappa_env.errors import WorkspaceError
from mappa_env.workspace.digests import CHUNK, segments
from mappa_env.workspace.escaping import parts
from mappa_env.workspace.nofollow import Root, create_file, open_file, walk
from mappa_env.workspace.snapshot import Entry, Snapshot
from mappa_env.workspace.storage import Storage

MAX_COPY_BYTES = 512 * 2**20
"""Bytes that one copy writes; holes are free."""


def copy_files(source: Root, snapshot: Snapshot, target: Storage, *, links: bool = False) -> int:
    """Copy the regular files and folders of ``snapshot`` with their modes and times; returns bytes written.

    Holes stay holes, and hard links stay links. ``links``: copy symbolic links too, as they are. Leaves out
    special files, and whatever exceeds MAX_COPY_BYTES in total. Raises OSError if the host cannot write.
    """
    written, names = 0, dict[int, str]()
    folders = [(path, entry) for path, entry in snapshot.entries.items() if entry.kind == "dir"]
    for path, _ in folders:
        os.close(walk(target.root, parts(path), make=True, owner=target.owner))
    for path, entry in snapshot.entries.items():
        if entry.kind == "link" and links:
            _copy_link(source, path, target)
        if entry.kind != "file":
            continue
        if entry.links > 1 and entry.inode in names:
            _link(target.root, names[entry.inode], path)
            continue
        size = _copy(source, path, entry, target, MAX_COPY_BYTES - written)
        if size is not None:
            written += size
            names[entry.inode] = path
    for path, entry in reversed(folders):  # a folder's time changes with what is put into it
        folder = walk(target.root, parts(path))
        try:
            _resemble(folder, entry)
        finally:
            os.close(folder)
    return written


def _copy(source: Root, path: str, entry: Entry, target: Storage, room: int) -> int | None:
    """Copy one file; returns the bytes written, None if it is gone or has more than ``room``."""
    *above, name = parts(path)
    try:
        folder = walk(source, above)
    except OSError:  # removed since the scan
        return None
    try:
        stream = open_file(name, folder)
    except WorkspaceError:
        return None
    finally:
        os.close(folder)
    with stream:
        size = os.fstat(stream.fileno()).st_size
        data = list(segments(stream.fileno(), size))
        total = sum(end - start for start, end in data)
        if total > room:
            return None
        into = walk(target.root, above, make=True, owner=target.owner)
        try:
            with create_file(name, into, target.owner) as copy:
                for at, end in data:
                    while at < end and (block := os.pread(stream.fileno(), min(end - at, CHUNK), at)):
                        os.pwrite(copy.fileno(), block, at)
                        at += len(block)
                os.ftruncate(copy.fileno(), size)
                _resemble(copy.fileno(), entry)
        finally:
            os.close(into)
    return total


def _copy_link(source: Root, path: str, target: Storage) -> None:
    """Copy a symbolic link, unless it is gone; nobody follows it."""
    *above, name = parts(path)
    try:
        folder = walk(source, above)
    except OSError:  # removed since the scan
        return
    try:
        to = os.readlink(name, dir_fd=folder)
    except OSError:
        return
    finally:
        os.close(folder)
    into = walk(target.root, above, make=True, owner=target.owner)
    try:
        os.symlink(to, name, dir_fd=into)
        if target.owner is not None:
            os.chown(name, target.owner, target.owner, dir_fd=into, follow_symlinks=False)
    finally:
        os.close(into)


def _link(root: Root, old: str, new: str) -> None:
    *above, name = parts(old)
    *beside, other = parts(new)
    source = walk(root, above)
    try:
        target = walk(root, beside)
        try:
            os.link(name, other, src_dir_fd=source, dst_dir_fd=target, follow_symlinks=False)
        finally:
            os.close(target)
    finally:
        os.close(source)


def _resemble(file: int, entry: Entry) -> None:
    """Give the file or folder behind a descriptor the mode and the time of ``entry``."""
    os.fchmod(file, entry.mode & 0o777)
    os.utime(file, ns=(entry.modified_ns, entry.modified_ns))
