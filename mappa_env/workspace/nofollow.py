"""Opening, creating and deleting inside folders that hostile code wrote: no link is ever followed.

Everything goes through directory descriptors, one component at a time, so neither a link nor a path longer
than the system allows can redirect or stop the host. A FIFO cannot block it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Sequence
from io import BufferedReader, BufferedWriter

from mappa_env.errors import WorkspaceError

_FOLDER = os.O_RDONLY | os.O_NOFOLLOW | os.O_DIRECTORY | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def open_folder(name: str | os.PathLike[str], at: int | None = None) -> int:
    """Descriptor of a real folder, made accessible to us if its mode forbids it. Raises OSError."""
    try:
        return os.open(name, _FOLDER, dir_fd=at)
    except PermissionError:
        handle = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=at)
        try:
            os.chmod(f"/proc/self/fd/{handle}", 0o700)  # the folder itself, whatever its name now points to
        finally:
            os.close(handle)
        return os.open(name, _FOLDER, dir_fd=at)


def walk(
    root: str | os.PathLike[str] | int, parts: Sequence[str], *, make: bool = False, owner: int | None = None
) -> int:
    """Descriptor of the folder ``parts`` below ``root`` (a path, or a descriptor that stays the caller's).

    ``make``: create what is missing, as ``owner``'s if one is named.
    """
    folder = open_folder(".", root) if isinstance(root, int) else open_folder(root)
    for part in parts:
        try:
            if make:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, 0o755, dir_fd=folder)
                    if owner is not None:
                        os.chown(part, owner, owner, dir_fd=folder, follow_symlinks=False)
            deeper = open_folder(part, folder)
        finally:
            os.close(folder)
        folder = deeper
    return folder


def open_file(name: str, at: int) -> BufferedReader:
    """A regular file for reading. Raises WorkspaceError for a link, FIFO, socket, device or folder."""
    try:
        file = os.open(name, _READ, dir_fd=at)
    except OSError as error:
        raise WorkspaceError(why(error)) from None
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise WorkspaceError("it is not a regular file")
    return os.fdopen(file, "rb")


def create_file(name: str, at: int, owner: int | None = None) -> BufferedWriter:
    """A new regular file for writing, in place of whatever file or link has that name."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(name, dir_fd=at)
    file = os.open(name, _CREATE, 0o644, dir_fd=at)
    if owner is not None:
        os.fchown(file, owner, owner)
    return os.fdopen(file, "wb")


def ensure_folder(path: str | os.PathLike[str]) -> None:
    """Make ``path`` a real folder that we may enter, replacing a file or link of that name."""
    try:
        info = os.lstat(path)
    except FileNotFoundError:
        os.mkdir(path, 0o700)
        return
    if not stat.S_ISDIR(info.st_mode):
        os.unlink(path)
        os.mkdir(path, 0o700)
    elif info.st_mode & 0o700 != 0o700:
        folder = open_folder(path)
        os.fchmod(folder, 0o700)
        os.close(folder)


def give_tree(root: str | os.PathLike[str], owner: int) -> None:
    """Make ``owner`` the owner of a tree that the host has filled. Raises OSError."""
    for _, folders, files, at in os.fwalk(root, follow_symlinks=False):
        os.fchown(at, owner, owner)
        for name in (*folders, *files):
            os.chown(name, owner, owner, dir_fd=at, follow_symlinks=False)


def remove_tree(root: str | os.PathLike[str]) -> None:
    """Delete a tree of any depth and mode. Raises OSError for what cannot be deleted (a mount, say).

    Folders found in a folder are first moved up to the top, so no path gets long and no stack deep.
    """
    try:
        top = open_folder(root)
    except FileNotFoundError:
        return
    except NotADirectoryError:  # a file, or a link: O_DIRECTORY is checked before O_NOFOLLOW
        os.unlink(root)
        return
    moved = 0
    mark = secrets.token_hex(8)  # no name that could be there already
    try:
        os.fchmod(top, 0o700)
        while folders := _unlink_files(top):
            for name in folders:
                folder = _open_writable(name, top)
                try:
                    for inner in _unlink_files(folder):
                        moved += 1
                        os.close(_open_writable(inner, folder))  # moving it rewrites its ".."
                        os.rename(inner, f"{mark}-{moved}", src_dir_fd=folder, dst_dir_fd=top)
                finally:
                    os.close(folder)
                os.rmdir(name, dir_fd=top)
    finally:
        os.close(top)
    os.rmdir(root)


def why(error: OSError) -> str:
    """The reason of a refused opening, in words."""
    if error.errno in (errno.ELOOP, errno.ENOTDIR):
        return "it is, or lies behind, a link or a file"
    if error.errno == errno.ENXIO:
        return "it is not a regular file"
    return os.strerror(error.errno or 0).lower()


def _open_writable(name: str, at: int) -> int:
    folder = open_folder(name, at)
    os.fchmod(folder, 0o700)
    return folder


def _unlink_files(folder: int) -> list[str]:
    """Unlink everything in ``folder`` but its folders, whose names are returned."""
    with os.scandir(folder) as entries:
        found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    for name, is_folder in found:
        if not is_folder:
            os.unlink(name, dir_fd=folder)
    return [name for name, is_folder in found if is_folder]
