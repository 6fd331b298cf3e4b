"""What tells that a task's files have changed: their times and sizes."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from mappa_env.errors import DataError

Stamps = tuple[tuple[int, int], ...]
"""For each file the time of its last change in ns, and its bytes."""


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


def _stamp(path: Path) -> tuple[int, int]:
    try:
        found = path.stat()
    except OSError as error:
        raise DataError(f"{path}: {error.strerror or error}") from None
    return found.st_mtime_ns, found.st_size
