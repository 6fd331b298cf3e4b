"""Opens the user's files: only regular ones, since a pipe or a device may never end."""

from __future__ import annotations

from pathlib import Path

from mappa_env.errors import DataError, DataMissingError


def regular(path: Path) -> Path:
    """The path, if a regular file is there. Raises DataMissingError, DataError."""
    if path.is_file():
        return path
    if path.exists() and not path.is_dir():
        raise DataError(f"{path} is neither a regular file nor a folder; copy its content into a file.")
    raise DataMissingError(f"the task file {str(path)!r} does not exist or is a folder.")
