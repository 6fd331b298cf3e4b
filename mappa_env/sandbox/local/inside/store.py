"""Workspaces as tmpfs mounts: a hard quota of bytes and inodes that vanishes with its owner."""

from __future__ import annotations

import os

from . import kernel
from .root import STORE

_FLAGS = kernel.MS_NOSUID | kernel.MS_NODEV


def open_place(number: int, size: int, inodes: int, owner: int) -> int:
    """Mount place ``number`` with at most ``size`` bytes; returns a descriptor of its root folder."""
    path = place(number)
    os.mkdir(path, 0o700)
    kernel.mount(
        "tmpfs", path, "tmpfs", _FLAGS, _options(size, inodes) + f",mode=700,uid={owner},gid={owner}"
    )
    return os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)


def resize(number: int, size: int, inodes: int) -> None:
    """Change the quota. Raises OSError where the place already holds more."""
    kernel.mount("none", place(number), flags=_FLAGS | kernel.MS_REMOUNT, data=_options(size, inodes))


def drop(number: int) -> None:
    """Unmount it; the memory is given back when the last descriptor of it is closed."""
    kernel.unmount(place(number))
    os.rmdir(place(number))


def place(number: int) -> str:
    return f"{STORE}/{number}"


def _options(size: int, inodes: int) -> str:
    return f"size={size},nr_inodes={inodes}"
