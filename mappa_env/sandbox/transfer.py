"""Workspaces as tar archives: packed for a server, and read back from one with distrust.

What comes back was written next to hostile code. The reader knows the one form that the server-side wrapper
writes (GNU tar with regular files, folders and long names), and refuses everything else: links, devices,
sparse files, names that leave the workspace, contradictions, more than the limits. ``tarfile`` is not used
for reading: it accepts far more, and extracting with it follows what the archive says.
"""

from __future__ import annotations

import contextlib
import io
import os
import secrets
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from mappa_env.errors import SandboxError, WorkspaceError
from mappa_env.folders import create_file, walk
from mappa_env.names import parts, shown
from mappa_env.trail import MAX_DEPTH, MAX_ENTRIES, MAX_PATH, Snapshot
from mappa_env.workspace import Workspace

MAX_PACK_BYTES = 512 * 2**20
_MAX_NAME = 255
"""Bytes of one component of a path, as file systems have it."""
_BLOCK = 512
_MAGIC = b"ustar  \0"
_FILE, _FOLDER, _LONG_NAME = b"0", b"5", b"L"


class TransferError(SandboxError):
    """An archive that the wrapper cannot have written."""


@dataclass(frozen=True, slots=True)
class Tree:
    """``files``: mode and content by path (surrogateescape); ``folders``: every folder, parents included."""

    files: Mapping[str, tuple[int, memoryview]] = field(default_factory=dict)
    folders: frozenset[str] = frozenset()


def pack(workspace: Workspace) -> bytes:
    """The regular files and folders of the last scan. Raises SandboxError or WorkspaceError."""
    entries = workspace.snapshot.entries
    size = sum(entry.size for entry in entries.values() if entry.kind == "file")
    if size > MAX_PACK_BYTES:
        raise SandboxError(f"the workspace holds {size} bytes; at most {MAX_PACK_BYTES} travel to a server.")
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT, encoding="utf-8") as archive:
        for path, entry in entries.items():
            info = tarfile.TarInfo(path)
            info.mode, info.mtime = entry.signature[0] & 0o777, entry.signature[3] // 10**9
            if entry.kind == "dir":
                info.type = tarfile.DIRTYPE
                archive.addfile(info)
            elif entry.kind == "file":
                content = workspace.read(shown(path), max_bytes=MAX_PACK_BYTES)
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def unpack(data: bytes, limit: int) -> Tree:
    """The content of an archive whose files hold at most ``limit`` bytes. Raises TransferError."""
    files: dict[str, tuple[int, memoryview]] = {}
    folders: set[str] = set()
    for kind, name, mode, content in _entries(data):
        path = _checked(name.decode("utf-8", "surrogateescape"))
        if path in files or path in folders:
            raise TransferError(f"{shown(path)!r} is in the archive twice")
        if len(files) + len(folders) >= MAX_ENTRIES:
            raise TransferError(f"the archive has more than {MAX_ENTRIES} entries")
        if kind == _FOLDER:
            folders.add(path)
            continue
        limit -= len(content)
        if limit < 0:
            raise TransferError("the files of the archive are larger than the disk limit allows")
        files[path] = (mode & 0o777, content)
    folders |= set(_above([*files, *folders]))
    if both := folders & files.keys():
        raise TransferError(f"{shown(min(both))!r} is both a file and a folder")
    return Tree(files, frozenset(folders))


def apply(workspace: Workspace, tree: Tree, kept: Mapping[str, str]) -> None:
    """Make the workspace hold what ``tree`` and ``kept`` say, and nothing else.

    ``kept``: files that did not travel, by path, with the path they had before; one under another path was
    renamed. All is checked before anything is touched: TransferError leaves the workspace as it was.
    OSError: the host could not write.
    """
    before = workspace.snapshot
    folders = tree.folders | set(_above(kept))
    _check_kept(before, tree, kept, folders)
    moved = {new: old for new, old in kept.items() if new != old}
    root, owner, mark = workspace.home.root, workspace.home.owner, secrets.token_hex(8)
    parked = {new: f"{mark}-{number}" for number, new in enumerate(moved)}  # two may swap their names
    for new, old in moved.items():
        _rename(workspace, old, parked[new])
    stay = {path for path, old in kept.items() if path == old} | folders
    for path in sorted(before.entries.keys() - set(moved.values()), reverse=True):
        if path not in stay or (path in folders) != (before.entries[path].kind == "dir"):
            _delete(workspace, path, before.entries[path].kind == "dir")
    for path in sorted(folders):
        os.close(walk(root, parts(path), make=True, owner=owner))
    for new, place in parked.items():
        _rename(workspace, place, new)
    for path, (mode, content) in tree.files.items():
        with _folder_of(workspace, path) as (folder, name), create_file(name, folder, owner) as target:
            target.write(content)
            os.fchmod(target.fileno(), mode | 0o400)  # the host goes on reading it


def _entries(data: bytes) -> Iterator[tuple[bytes, bytes, int, memoryview]]:
    """Kind, name, mode and content of every entry, up to the end mark."""
    at, long_name = 0, b""
    while (header := data[at : at + _BLOCK]) != bytes(_BLOCK):
        if len(header) < _BLOCK:
            raise TransferError("the archive ends too early")
        if header[257:265] != _MAGIC or _number(header[148:156]) != _checksum(header):
            raise TransferError(f"the archive is damaged at byte {at}")
        kind, size, mode = header[156:157], _number(header[124:136]), _number(header[100:108])
        content = memoryview(data)[at + _BLOCK : at + _BLOCK + size]
        if len(content) < size:
            raise TransferError("the archive ends too early")
        name = long_name or header[:100].split(b"\0", 1)[0]
        if kind == _LONG_NAME and not long_name and size <= 4 * MAX_PATH:
            long_name = bytes(content).rstrip(b"\0")
        elif kind == _FILE or (kind == _FOLDER and not size):
            yield kind, name.removesuffix(b"/") if kind == _FOLDER else name, mode, content
            long_name = b""
        else:
            raise TransferError(f"the archive has an entry of type {kind!r}, size {size}: not accepted")
        at += _BLOCK + -(-size // _BLOCK) * _BLOCK


def _number(text: bytes) -> int:
    digits = text.strip(b"\0 ")
    if not digits or digits.strip(b"01234567"):
        raise TransferError(f"the archive has {text!r} where a number belongs")
    return int(digits, 8)


def _checksum(header: bytes) -> int:
    return sum(header) - sum(header[148:156]) + 8 * ord(" ")


def _checked(path: str) -> str:
    try:
        components, name = parts(path), path.encode("utf-8", "surrogateescape")
    except (WorkspaceError, UnicodeEncodeError) as error:
        raise TransferError(f"a bad name came back: {error}") from None
    if len(path) > MAX_PATH or len(components) > MAX_DEPTH:
        raise TransferError(f"a name of {len(components)} levels and {len(path)} characters came back")
    if max(map(len, name.split(b"/"))) > _MAX_NAME:
        raise TransferError(f"a name with more than {_MAX_NAME} bytes in one level came back")
    return path


def _above(paths: Iterable[str]) -> Iterator[str]:
    """All folders that lead to ``paths``."""
    for path in paths:
        while "/" in path:
            path = path.rpartition("/")[0]
            yield path


def _check_kept(before: Snapshot, tree: Tree, kept: Mapping[str, str], folders: frozenset[str]) -> None:
    for path, old in kept.items():
        _checked(path)
        if old not in before.entries or before.entries[old].kind != "file":
            raise TransferError(f"{shown(old)!r} is said to be kept, but it was not there")
        if path in tree.files or path in folders:
            raise TransferError(f"{shown(path)!r} is said to be kept, but something else took its place")
    if len(set(kept.values())) < len(kept) or len(kept) + len(tree.files) + len(folders) > MAX_ENTRIES:
        raise TransferError("the list of kept files contradicts itself")
    if both := folders & tree.files.keys():
        raise TransferError(f"{shown(min(both))!r} is both a file and a folder")


@contextlib.contextmanager
def _folder_of(workspace: Workspace, path: str) -> Iterator[tuple[int, str]]:
    *above, name = parts(path)
    folder = walk(workspace.home.root, above)
    try:
        yield folder, name
    finally:
        os.close(folder)


def _rename(workspace: Workspace, old: str, new: str) -> None:
    with _folder_of(workspace, old) as (source, was), _folder_of(workspace, new) as (target, name):
        os.rename(was, name, src_dir_fd=source, dst_dir_fd=target)


def _delete(workspace: Workspace, path: str, is_folder: bool) -> None:
    with _folder_of(workspace, path) as (folder, name):
        (os.rmdir if is_folder else os.unlink)(name, dir_fd=folder)
