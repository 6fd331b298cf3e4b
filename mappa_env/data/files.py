"""Opens the user's files: only regular ones, since a pipe or a device may never end."""

from __future__ import annotations

import stat
from pathlib import Path

from mappa_env.errors import DataError, DataMissingError

_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def regular(path: Path) -> Path:
    """The path, if a regular file is there; it is not opened. Raises DataMissingError, DataError."""
    what = problem_of(path)
    if what and path.exists() and not path.is_dir():
        raise DataError(f"{path} {what}")
    if what:
        raise DataMissingError(f"the task file {str(path)!r} {what}")
    return path


def problem_of(path: Path) -> str:
    """Why no regular file can be read at ``path``, without opening it; empty if one is there."""
    try:
        kind = stat.S_IFMT(path.stat().st_mode)
    except FileNotFoundError:
        return "is a link to nothing." if path.is_symlink() else "does not exist."
    except OSError as error:
        return f"cannot be read: {error.strerror or error}."
    if kind == stat.S_IFREG:
        return ""
    remedy = "name a file in it" if kind == stat.S_IFDIR else "copy its content into a file"
    return f"is {_KINDS.get(kind, 'of an unknown kind')}, not a file; {remedy}."
