"""Workspaces as tmpfs mounts, with a hard quota of bytes and inodes. They end with the template."""

from __future__ import annotations

import os

from . import kernel
from .root import STORE

_FLAGS = kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOATIME
"""No times of reading: they would tell the next agent what this one has read."""


def open_place(number: int, size: int, inodes: int, owner: int) -> int:
    """Mount place ``number`` with at most ``size`` bytes; returns a descriptor of its root folder."""
    path = place(number)
    os.mkdir(path, 0o700)
    kernel.mount(
        "tmpfs", path, "tmpfs", _FLAGS, _options(size, inodes) + f",mode=700,uid={owner},gid={owner}"
    )
    return os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)


def resize(number: int, size: int, inodes: int) -> None:
    """Change the quota. Raises OSError if the place already holds more."""
    kernel.mount("none", place(number), flags=_FLAGS | kernel.MS_REMOUNT, data=_options(size, inodes))


def drop(number: int) -> None:
    """Unmount the place; the kernel frees its memory when the last descriptor is closed."""
    kernel.unmount(place(number))
    os.rmdir(place(number))


def place(number: int) -> str:
    """The mount point of place ``number``."""
    return f"{STORE}/{number}"


def _options(size: int, inodes: int) -> str:
    return f"size={size},nr_inodes={inodes}"
