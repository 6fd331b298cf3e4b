"""What tells that a task's files have changed: their times and sizes.

The time of the last change of status tells an edit whose time of modification was set back, and another file
that took the place of one. It also changes with permissions and hard links, which no part of this package
gives a data file. Numbers of inodes and devices would add nothing, and some file systems change them on their
own: what is mounted again has another device, and some in user space number their files again.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from mappa_env.errors import DataError

Stamps = tuple[tuple[int, int, int], ...]
"""For each file the times of its last modification and its last change of status in ns, and its bytes."""


def stamps_of(paths: Iterable[Path]) -> Stamps:
    """Of the files at ``paths``. Raises DataError if one is missing."""
    return tuple(map(_stamp, paths))


def check_unchanged(stamps: Stamps, paths: Iterable[Path]) -> None:
    """Raises DataError that names a file which is not as it was when ``stamps`` were taken."""
    for before, path in zip(stamps, paths, strict=True):
        if _stamp(path) != before:
            raise DataError(
                f"{path} has changed since it was checked: make the environment again; first repeat "
                "`mappa-env data add` if that added it."
            )


def _stamp(path: Path) -> tuple[int, int, int]:
    try:
        found = path.stat()
    except OSError as error:
        raise DataError(f"{path}: {error.strerror or error}") from None
    return found.st_mtime_ns, found.st_ctime_ns, found.st_size
