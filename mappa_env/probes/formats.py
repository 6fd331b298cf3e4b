"""The format of a file by its first bytes: which ones the exporter can open. Nothing is opened here."""

from __future__ import annotations

import re

from mappa_env.probes.inside.exporter import MAX_BYTES
from mappa_env.probes.inside.reader import COMPRESSED

HEAD = 64
"""Bytes to look at."""
_SIGNATURES = (
    (b"PAR1", "parquet"),
    (b"ARROW1", "feather"),
    (b"FEA1", "feather"),
    (b"\x89HDF\r\n\x1a\n", "HDF5"),
    (b"SQLite format 3\x00", "SQLite"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"Rar!", "RAR"),
    (b"7z\xbc\xaf", "7z"),
    (b"\x93NUMPY", "npy"),
    (b"tree\n", "LightGBM text"),
    (b"CBM1", "CatBoost"),
)
_JSON = re.compile(rb'\s*(\{\s*"|\[\s*["\[{\d-])')
_UBJSON = re.compile(rb"\{(?:[iU].|I\x00.|l\x00{3}.|L\x00{7}.)[ -~]", re.DOTALL)
"""The length of the first name, in an integer of any size, and its first letter."""
_UNREADABLE = frozenset(
    ("HDF5", "SQLite", "zstd", "RAR", "7z", "LightGBM text", "CatBoost", "JSON", "UBJSON", "zip")
)


def format_of(head: bytes) -> str:
    """``parquet``, ``npz``, ``HDF5`` and so on; ``pickle`` for whatever has no signature of its own."""
    if head.startswith(b"PK\x03\x04"):  # an .npz file is a zip archive whose members end in .npy
        length = int.from_bytes(head[26:28], "little")
        return "npz" if length > HEAD - 30 or head[30 : 30 + length].endswith(b".npy") else "zip"
    if _JSON.match(head) or _UBJSON.match(head):  # no pickle starts like this
        return "JSON" if _JSON.match(head) else "UBJSON"
    return next((name for start, name in _SIGNATURES if head.startswith(start)), "pickle")


def packing_of(head: bytes) -> str:
    """The form of a pickle that ``pickle.load`` does not open: ``joblib`` (which packs with zlib), or
    ``compressed``."""
    return "compressed" if head.startswith(COMPRESSED) and not head.startswith(b"\x78") else "joblib"


def why_unknown(head: bytes, size: int) -> str:
    """Why nobody here can tell what a file holds; empty if the exporter can try. ``size`` in bytes."""
    if size > MAX_BYTES:
        return f"it has {size} bytes; at most {MAX_BYTES} are looked into"
    name = format_of(head)
    return f"it is a {name} file, which is not looked into" if name in _UNREADABLE else ""
