"""Room on disk: how much is free, and whether a failure means that none is."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path

FULL = (errno.ENOSPC, errno.EDQUOT)
ALMOST_NONE = 1 << 20
"""Free bytes below which any failed write is put down to a full disk: torch hides the reason."""


def free_disk(folder: Path) -> int:
    """Bytes that are free where ``folder`` is, or will be."""
    at = folder.resolve()
    while not at.exists():
        at = at.parent
    return shutil.disk_usage(at).free


def size_of(folder: Path) -> int:
    """Bytes of all files in ``folder``; 0 where there is none."""
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file())


def is_full(error: BaseException, folder: Path) -> bool:
    """Whether ``error``, just caught, means that the disk of ``folder`` is full."""
    reasons = [error]
    while (cause := reasons[-1].__cause__ or reasons[-1].__context__) is not None:
        reasons.append(cause)
    said = any(isinstance(each, OSError) and each.errno in FULL for each in reasons)
    return said or free_disk(folder) < ALMOST_NONE
