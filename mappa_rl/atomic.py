"""Files that are written whole or not at all, even if the process is killed or the power fails."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a draft next to ``path``; the draft replaces ``path`` when the block ends without an error.

    The draft is flushed to disk before it replaces the old file. After an error the old file is unchanged,
    and the draft is removed.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.new")
    draft.unlink(missing_ok=True)
    try:
        yield draft
        with draft.open("rb") as file:
            os.fsync(file.fileno())
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def write_bytes(path: Path, data: bytes) -> None:
    """Write a whole file, or leave the old one unchanged."""
    with replacing(path) as draft:
        draft.write_bytes(data)


def write_text(path: Path, text: str) -> None:
    """Write a whole UTF-8 file, or leave the old one unchanged."""
    write_bytes(path, text.encode("utf-8"))
