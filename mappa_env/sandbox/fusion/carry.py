"""Packs what an action changed on a server, for the way back to the host.

Standard library and shipped modules only: this module runs on servers.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from typing import IO, Any

from mappa_env.errors import WorkspaceError
from mappa_env.workspace.escaping import shown
from mappa_env.workspace.nofollow import open_file, walk
from mappa_env.workspace.snapshot import Snapshot

_MIB = 2**20


def carry(root: str, before: Snapshot, after: Snapshot, room: int, target: IO[bytes]) -> dict[str, Any]:
    """Write the changed files of ``root`` to ``target``; return names and counts of kept and dropped files.

    All files that the host will hold, kept ones included, have at most ``room`` bytes.
    """
    paths = sorted(after.entries, key=lambda path: path not in before.entries)
    kept = unmoved(before, after, paths)
    linked = further_names(after, paths, kept)
    modes = {new: after.entries[new].mode & 0o777 for new, old in kept.items() if new != old}
    room -= sum(after.entries[path].size for path in kept)
    sent = [path for path in paths if path not in kept and path not in linked]
    left = pack(root, target, after, sent, room)
    size = target.tell()
    target.seek(0)
    digest = hashlib.sha256()
    while data := target.read(_MIB):
        digest.update(data)
    return {
        "kept": {shown(new): shown(old) for new, old in kept.items()},
        "modes": {shown(new): mode for new, mode in modes.items()},
        "linked": {shown(new): shown(old) for new, old in linked.items() if shown(old) not in left},
        "left": left | {shown(new): left[shown(old)] for new, old in linked.items() if shown(old) in left},
        "beyond": after.skipped,
        "tar_bytes": size,
        "tar_sha256": digest.hexdigest(),
    }


def unmoved(before: Snapshot, after: Snapshot, paths: Iterable[str]) -> dict[str, str]:
    """Files that need not be sent, by path, with their earlier path: unchanged or only renamed."""
    gone = {entry.inode: path for path, entry in before.entries.items() if path not in after.entries}
    kept = {}
    for path in paths:
        now, was = after.entries[path], before.entries.get(path)
        if now.kind != "file" or not now.digested:
            continue
        if was == now:
            kept[path] = path
        elif was is None and (old := gone.get(now.inode)) and before.entries[old].sha256 == now.sha256:
            kept[path] = gone.pop(now.inode)  # a rename keeps inode and content
    return kept


def further_names(after: Snapshot, paths: Iterable[str], kept: Mapping[str, str]) -> dict[str, str]:
    """Hard links: the further names of files that are kept or sent under their first name, with that name."""
    first: dict[int, str] = {}
    found = {}
    for path in sorted(paths, key=lambda path: path not in kept):
        entry = after.entries[path]
        if entry.kind == "file" and entry.links > 1:
            name = first.setdefault(entry.inode, path)
            if name != path and path not in kept:
                found[path] = name
    return found


def pack(root: str, target: IO[bytes], after: Snapshot, paths: Iterable[str], room: int) -> dict[str, str]:
    """Write regular files and folders to ``target``; return the other entries with the reason."""
    left = {}
    with tarfile.open(fileobj=target, mode="w", format=tarfile.GNU_FORMAT, encoding="utf-8") as archive:
        for path in paths:
            entry, info = after.entries[path], tarfile.TarInfo(path)
            info.mode = entry.mode & 0o777
            if entry.kind == "dir":
                info.type = tarfile.DIRTYPE
                archive.addfile(info)
            elif entry.kind != "file":
                left[shown(path)] = entry.kind
            elif entry.size > room:
                left[shown(path)] = "too large"
            else:
                info.size = entry.size
                try:
                    with opened(root, path) as content:
                        archive.addfile(info, content)
                except WorkspaceError as error:
                    left[shown(path)] = str(error)
                else:
                    room -= entry.size
    return left


@contextlib.contextmanager
def opened(root: str, path: str) -> Iterator[IO[bytes]]:
    """Open a file of ``root`` without following links. Raises WorkspaceError."""
    *above, name = path.split("/")
    folder = walk(root, above)
    try:
        with open_file(name, folder) as stream:
            yield stream
    finally:
        os.close(folder)
