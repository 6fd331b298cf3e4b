"""Digests of files that hostile code wrote. The cost follows the bytes they hold, not the size they claim."""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Iterator

MAX_HASH_FILE = 256 * 2**20
MAX_HASH_TOTAL = 1024 * 2**20
MAX_HOLES = 16 * 2**20
"""Bytes in holes that one scan digests. Holes use no disk, so no quota bounds them."""
CHUNK = 2**16
_ZEROS = bytes(CHUNK)


class Digester:
    """SHA-256 of files, within the limits of one scan on the bytes of a file, of all files and of holes."""

    def __init__(self) -> None:
        self._bytes, self._holes = MAX_HASH_TOTAL, MAX_HOLES

    def digest(self, file: int, info: os.stat_result) -> str:
        """The hex digest, the same whether zeros are written or a hole, or ``"skipped: <why>"``.

        ``file``: an open descriptor. Raises OSError.
        """
        size = info.st_size
        if size > min(MAX_HASH_FILE, self._bytes):
            return "skipped: size"
        data = [(0, size)] if size <= info.st_blocks * 512 else list(segments(file, size))
        holes = size - sum(end - start for start, end in data)
        if holes > self._holes:
            return "skipped: holes"
        self._holes -= holes
        self._bytes -= size - holes
        digest, at = hashlib.sha256(), 0
        for start, end in (*data, (size, size)):
            for left in range(start - at, 0, -CHUNK):
                digest.update(_ZEROS[:left])
            at = start
            while at < end and (block := os.pread(file, min(end - at, CHUNK), at)):  # it may shrink meanwhile
                digest.update(block)
                at += len(block)
        return digest.hexdigest()


def segments(file: int, size: int) -> Iterator[tuple[int, int]]:
    """Start and end of each part of an open file that is no hole, up to ``size``."""
    at = 0
    while at < size:
        try:
            start = os.lseek(file, at, os.SEEK_DATA)
            end = os.lseek(file, start, os.SEEK_HOLE)
        except OSError as error:
            if error.errno != errno.ENXIO:  # this file system does not know its holes
                yield at, size
            return
        if start >= size:
            return
        yield start, min(end, size)
        at = end
