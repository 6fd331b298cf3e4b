"""Removes from a workspace what the file history does not list: attributes, and what lies too deep."""

from __future__ import annotations

import errno
import os
from collections.abc import Container, Iterable

from mappa_env.workspace.nofollow import Root, open_folder, remove_tree, walk

_OF_THE_OWNER = ("user.", "system.posix_acl_")
"""Extended attributes that the owner of a file can set. Others are the system's, such as SELinux labels."""


def strip(handle: int) -> bool:
    """Remove the owner's attributes of an open file or folder; whether there were any. Raises OSError."""
    if not hasattr(os, "listxattr"):  # not Linux, where no agent's code runs on the host
        return False
    try:
        names = [name for name in os.listxattr(handle) if name.startswith(_OF_THE_OWNER)]
    except OSError as error:
        if error.errno == errno.ENOTSUP:  # this file system keeps none
            return False
        raise
    for name in names:
        os.removexattr(handle, name)
    return bool(names)


def strip_folder(name: str, at: int, info: os.stat_result) -> os.stat_result:
    """As ``strip``, for a folder by its name; returns its status afterwards. Raises OSError."""
    folder = open_folder(name, at)
    try:
        return os.fstat(folder) if strip(folder) else info
    finally:
        os.close(folder)


def prune(root: Root, folders: Iterable[str], kept: Container[str]) -> None:
    """Delete everything in ``root`` and its ``folders`` whose path is not in ``kept``. Raises OSError."""
    for above in ("", *folders):
        folder = walk(root, above.split("/") if above else [])
        try:
            for name in os.listdir(folder):
                if (f"{above}/{name}" if above else name) not in kept:
                    remove_tree(name, folder)
        finally:
            os.close(folder)
