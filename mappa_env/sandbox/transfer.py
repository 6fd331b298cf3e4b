"""Packs workspaces into tar archives for a server, and reads untrusted archives from it.

Hostile code may have touched what comes back. The reader knows only the form that the server-side wrapper
writes (GNU tar with regular files, folders and long names), and refuses everything else: links, devices,
sparse files, names that leave the workspace, contradictions, anything beyond the limits. It does not use
``tarfile``, which accepts far more and extracts to wherever the archive says.
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
from mappa_env.workspace.escaping import parts, shown
from mappa_env.workspace.nofollow import create_file, open_file, walk
from mappa_env.workspace.snapshot import MAX_DEPTH, MAX_ENTRIES, MAX_PATH, Snapshot
from mappa_env.workspace.workspace import Workspace

MAX_PACK_BYTES = 512 * 2**20
_MAX_NAME = 255
"""Longest component of a path in bytes, as in common file systems."""
_BLOCK = 512
_MAGIC = b"ustar  \0"
_FILE, _FOLDER, _LONG_NAME = b"0", b"5", b"L"


class TransferError(SandboxError):
    """An archive that the wrapper cannot have written."""


@dataclass(frozen=True, slots=True)
class Tree:
    """A tree of files. ``files``: path (surrogateescape) -> mode and content; ``folders``: all folders."""

    files: Mapping[str, tuple[int, memoryview]] = field(default_factory=dict)
    folders: frozenset[str] = frozenset()


def pack(workspace: Workspace) -> bytes:
    """Pack the regular files and folders of the last scan.

    Raises SandboxError for more than can be sent, or WorkspaceError.
    """
    entries, names = workspace.snapshot.entries, dict[int, str]()
    skipped = workspace.snapshot.skipped
    size = sum(entry.size for entry in entries.values() if entry.kind == "file")
    if size > MAX_PACK_BYTES or len(entries) + skipped > MAX_ENTRIES:
        raise SandboxError(
            f"the workspace is too large to send: {size / 2**20:.1f} MiB in {len(entries) + skipped} files "
            f"and folders; the most is {MAX_PACK_BYTES / 2**20:g} MiB and {MAX_ENTRIES}. Use a sandbox "
            "on this machine, such as sandbox='local'."
        )
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT, encoding="utf-8") as archive:
        for path, entry in entries.items():
            info = tarfile.TarInfo(path)
            info.mode, info.mtime = entry.signature[0] & 0o777, entry.signature[3] // 10**9
            if entry.kind == "dir":
                info.type = tarfile.DIRTYPE
                archive.addfile(info)
            elif entry.links > 1 and entry.inode in names:
                info.type, info.linkname = tarfile.LNKTYPE, names[entry.inode]
                archive.addfile(info)
            elif entry.kind == "file":
                names[entry.inode] = path
                content = workspace.read(shown(path), max_bytes=MAX_PACK_BYTES)
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def unpack(data: bytes, limit: int) -> Tree:
    """Read an archive whose files hold at most ``limit`` bytes in total. Raises TransferError."""
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


def apply(
    workspace: Workspace,
    tree: Tree,
    kept: Mapping[str, str],
    modes: Mapping[str, int] | None = None,
    linked: Mapping[str, str] | None = None,
) -> None:
    """Make the workspace hold exactly the files of ``tree``, ``kept`` and ``linked``.

    ``kept``: files that were not sent, path -> earlier path; the two differ for a renamed file. ``modes``:
    new permissions of some of these. ``linked``: hard links, path -> another name of the file. Checks
    everything first: TransferError leaves the workspace unchanged. Raises OSError if the host cannot write.
    """
    before, modes, linked = workspace.snapshot, modes or {}, linked or {}
    folders = tree.folders | set(_above([*kept, *linked]))
    _check_kept(before, tree, kept, folders)
    _check_linked(tree, kept, folders, linked)
    if strange := modes.keys() - kept.keys():
        raise TransferError(f"{shown(min(strange))!r} has a mode, but it was not kept")
    moved = {new: old for new, old in kept.items() if new != old}
    root, owner, mark = workspace.storage.root, workspace.storage.owner, secrets.token_hex(8)
    parked = {new: f"{mark}-{number}" for number, new in enumerate(moved)}  # two may swap their names
    for new, old in moved.items():
        _rename(workspace, old, parked[new])
    unmoved = {path for path, old in kept.items() if path == old} | folders
    for path in sorted(before.entries.keys() - set(moved.values()), reverse=True):
        if path not in unmoved or (path in folders) != (before.entries[path].kind == "dir"):
            _delete(workspace, path, before.entries[path].kind == "dir")
    for path in sorted(folders):
        os.close(walk(root, parts(path), make=True, owner=owner))
    for new, place in parked.items():
        _rename(workspace, place, new)
    for path, (mode, content) in tree.files.items():
        with _folder_of(workspace, path) as (folder, name), create_file(name, folder, owner) as target:
            target.write(content)
            os.fchmod(target.fileno(), mode | 0o400)  # the host must still read it
    for path, mode in modes.items():
        with _folder_of(workspace, path) as (folder, name), open_file(name, folder) as renamed:
            os.fchmod(renamed.fileno(), mode | 0o400)
    for new, old in linked.items():
        with _folder_of(workspace, old) as (source, was), _folder_of(workspace, new) as (folder, name):
            os.link(was, name, src_dir_fd=source, dst_dir_fd=folder, follow_symlinks=False)


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


def _check_linked(
    tree: Tree, kept: Mapping[str, str], folders: frozenset[str], linked: Mapping[str, str]
) -> None:
    for new, old in linked.items():
        _checked(new)
        if new in kept or new in tree.files or new in folders:
            raise TransferError(
                f"{shown(new)!r} is said to be a hard link, but something else took its place"
            )
        if old not in kept and old not in tree.files:
            raise TransferError(
                f"{shown(new)!r} is said to be a hard link to {shown(old)!r}, which is missing"
            )
    if len(linked) + len(kept) + len(tree.files) + len(folders) > MAX_ENTRIES:
        raise TransferError("there are more hard links than a workspace may hold")


@contextlib.contextmanager
def _folder_of(workspace: Workspace, path: str) -> Iterator[tuple[int, str]]:
    *above, name = parts(path)
    folder = walk(workspace.storage.root, above)
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
