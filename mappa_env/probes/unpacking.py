"""What compressed files hold, with the standard library and within a bound, however far they would unfold."""

from __future__ import annotations

import bz2
import io
import lzma
import zipfile
import zlib
from collections.abc import Iterator

_MEMORY = 64 * 2**20
"""Bytes that an xz stream may ask for."""
_MOST_MEMBERS = 1000
_BROKEN = (
    OSError,
    EOFError,
    ValueError,
    RuntimeError,
    LookupError,
    zlib.error,
    lzma.LZMAError,
    zipfile.BadZipFile,
)


def contents(data: bytes, most: int) -> Iterator[bytes]:
    """``data``, then what it holds if it is gzip, zlib, bzip2, xz, lzma or zip: at most ``most`` bytes.

    What is broken ends early.
    """
    yield data
    try:
        if data.startswith(b"PK\x03\x04"):
            yield from _members(data, most)
        elif data.startswith((b"\x1f\x8b", b"\x78")):
            yield zlib.decompressobj(wbits=zlib.MAX_WBITS | 32).decompress(data, most)
        elif data.startswith(b"BZh"):
            yield bz2.BZ2Decompressor().decompress(data, most)
        elif data.startswith((b"\xfd7zXZ", b"\x5d\x00")):
            yield lzma.LZMADecompressor(memlimit=_MEMORY).decompress(data, most)
    except _BROKEN:
        return


def _members(data: bytes, most: int) -> Iterator[bytes]:
    """All members as one, so that names may lie in several."""
    found, left = [], most
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for member in archive.infolist()[:_MOST_MEMBERS]:
            # Other methods may ask for more memory than we can bound.
            if left > 0 and member.compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                with archive.open(member) as stream:
                    found.append(stream.read(left))
                left -= len(found[-1])
    yield b"\n".join(found)
