"""Opens, creates and deletes files in folders that hostile code wrote, and never follows a link.

All access goes through directory descriptors, one path component at a time. So links cannot redirect the
host, overlong paths cannot stop it, and FIFOs cannot block it.
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

Root = str | os.PathLike[str] | int
"""A folder: its path or a descriptor."""
_ENTER, _USE = 0o700, 0o600
_FOLDER = os.O_RDONLY | os.O_NOFOLLOW | os.O_DIRECTORY | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def open_folder(name: str | os.PathLike[str], at: int | None = None) -> int:
    """Open a real folder, changing its mode if that denies us access. Raises OSError."""
    try:
        return os.open(name, _FOLDER, dir_fd=at)
    except PermissionError:
        accessible(name, at)
        return os.open(name, _FOLDER, dir_fd=at)


def accessible(name: str | os.PathLike[str], at: int | None = None) -> os.stat_result:
    """Give the owner of a file or folder its permission to use it back; returns the new status.

    Otherwise one agent could lock out the next one, and an unprivileged host too. Raises OSError.
    """
    if name == "." and at is not None:  # a closed folder does not even find itself
        return reopened(at)
    handle = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
    try:
        return reopened(handle)
    finally:
        os.close(handle)


def reopened(handle: int) -> os.stat_result:
    """As ``accessible``, for a descriptor, which may be an ``O_PATH`` one. Raises OSError."""
    info = os.fstat(handle)
    if not closed(info):
        return info
    mode = stat.S_IMODE(info.st_mode) | (_ENTER if stat.S_ISDIR(info.st_mode) else _USE)
    os.chmod(f"/proc/self/fd/{handle}", mode)  # not by name, which may change
    return os.fstat(handle)


def closed(info: os.stat_result) -> bool:
    """Whether the mode of a file or folder denies its owner to read, change or enter it."""
    if stat.S_ISDIR(info.st_mode):
        return info.st_mode & _ENTER != _ENTER
    return stat.S_ISREG(info.st_mode) and info.st_mode & _USE != _USE


def walk(root: Root, parts: Sequence[str], *, make: bool = False, owner: int | None = None) -> int:
    """Open the folder ``parts`` below ``root``: a path, or a descriptor that the caller still owns.

    ``make``: create missing folders, owned by ``owner`` if given.
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
    """Open a regular file for reading. Raises WorkspaceError for a link, FIFO, socket, device or folder."""
    try:
        file = os.open(name, _READ, dir_fd=at)
    except OSError as error:
        raise WorkspaceError(why(error)) from None
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise WorkspaceError("it is not a regular file")
    return os.fdopen(file, "rb")


def create_file(name: str, at: int, owner: int | None = None) -> BufferedWriter:
    """Create a regular file for writing, replacing any file or link of that name."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(name, dir_fd=at)
    file = os.open(name, _CREATE, 0o644, dir_fd=at)
    if owner is not None:
        os.fchown(file, owner, owner)
    return os.fdopen(file, "wb")


def ensure_folder(path: str | os.PathLike[str]) -> None:
    """Make ``path`` a real folder that we may enter, replacing any file or link of that name."""
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
    """Make ``owner`` the owner of a tree that the host wrote. Raises OSError."""
    for _, folders, files, at in os.fwalk(root, follow_symlinks=False):
        os.fchown(at, owner, owner)
        for name in (*folders, *files):
            os.chown(name, owner, owner, dir_fd=at, follow_symlinks=False)


def remove_tree(root: str | os.PathLike[str], at: int | None = None) -> None:
    """Delete a tree of any depth and mode. Raises OSError for what cannot be deleted, such as a mount.

    ``at``: the folder that a relative ``root`` lies in. Moves nested folders to the top first, so paths stay
    short and nothing recurses.
    """
    try:
        top = open_folder(root, at)
    except FileNotFoundError:
        return
    except NotADirectoryError:  # a file, or a link: O_DIRECTORY is checked before O_NOFOLLOW
        os.unlink(root, dir_fd=at)
        return
    moved = 0
    mark = secrets.token_hex(8)  # cannot exist already
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
    os.rmdir(root, dir_fd=at)


def why(error: OSError) -> str:
    """The reason why opening a file failed, in words."""
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
    """Unlink everything in ``folder`` except its folders; return the names of those."""
    with os.scandir(folder) as entries:
        found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    for name, is_folder in found:
        if not is_folder:
            os.unlink(name, dir_fd=folder)
    return [name for name, is_folder in found if is_folder]
