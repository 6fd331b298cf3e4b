"""Compressed traces: gzip members of whole episodes, an index of them, and a footer that finds the index.

Every member but the last two holds the lines of some episodes, with all texts and cards that they refer to,
so one episode can be read without the rest of the file. Any gzip program reads the whole.
"""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import BinaryIO

from mappa_env.errors import DataError
from mappa_env.json_and_yaml import read_json
from mappa_env.trace.jsonlines import head, to_json
from mappa_env.trace.recorded import Summary
from mappa_env.trace.scanning import REFERENCE, Lines, Scan, action_of
from mappa_env.types.revised import revised

BLOCK = 1 << 20
"""Bytes of lines from which a member is closed: as much as must be read for one episode."""
LEVEL = 6
GZIP = b"\x1f\x8b"
_EXTRA = b"MT"
_EMPTY = b"\x03\x00" + bytes(8)
"""The body of a gzip member without content: its deflate stream, checksum and size."""
_FOOTER = GZIP + b"\x08\x04" + bytes(4) + b"\x00\xff" + struct.pack("<H2sH", 12, _EXTRA, 8)
FOOTER_SIZE = len(_FOOTER) + 8 + len(_EMPTY)
_INDEX = head("index")


@dataclass(slots=True)
class Index:
    """What a packed file holds: ``end`` of its members with lines, and its episodes by key.

    ``members``: (offset, length) of each; ``episodes``: key -> (member, summary).
    """

    end: int = 0
    members: list[tuple[int, int]] = field(default_factory=list)
    episodes: dict[str, tuple[int, Summary]] = field(default_factory=dict)


def packed_blocks(data: Lines, start: int, file: str) -> Iterator[tuple[bytes, list[Summary]]]:
    """Compressed members with the complete episodes in ``data`` from ``start`` on, and who is in each."""
    scan = Scan(file)
    scan.read(data, start)
    parts: list[bytes] = []
    size, inside, known = 0, list[Summary](), set[bytes]()
    for _, found in scan.complete:
        assert found.summary is not None
        for place in found.lines:
            line = data[place[0] : place[1] + 1]
            for name in REFERENCE.findall(line):
                if name not in known and name in scan.texts:
                    known.add(name)
                    text = scan.texts[name]
                    parts.append(data[text[0] : text[1] + 1])
                    size += len(parts[-1])
            parts.append(line)
            size += len(line)
        inside.append(found.summary)
        if size >= BLOCK:
            yield _member(b"".join(parts)), inside
            parts, size, inside, known = [], 0, [], set()
    if parts:
        yield _member(b"".join(parts)), inside


def packable(data: Lines, start: int) -> bool:
    """Whether all lines from ``start`` on are of this version: only those can be rearranged."""
    return all(found.version != 1 for found in _scanned(data, start).episodes.values())


def _scanned(data: Lines, start: int) -> Scan:
    scan = Scan("")
    scan.read(data, start)
    return scan


def index_and_footer(index: Index) -> bytes:
    """The last two members of a file whose members with lines end at ``index.end``."""
    rows = [
        [member, *(getattr(summary, name) for name in _FIELDS), [list(action) for action in summary.actions]]
        for member, summary in index.episodes.values()
    ]
    line = b'%b"members":%b,"episodes":%b}\n' % (_INDEX, to_json(index.members), to_json(rows))
    return _member(line) + _FOOTER + struct.pack("<Q", index.end) + _EMPTY


_FIELDS = (
    "key",
    "env_id",
    "task_id",
    "topic",
    "family",
    "seed",
    "success",
    "score",
    "status",
    "about",
)
"""The fields of a ``Summary`` in an index, besides the file and the actions."""


def tail_of(data: Lines, size: int) -> tuple[int, Index | None]:
    """Where the compressed part of a file ends, and its index. (0, None): it has none, or another program's.

    Raises DataError for a damaged index.
    """
    if data[:2] != GZIP:
        return 0, None
    end = size
    while (found := data.rfind(_FOOTER, 0, end)) >= 0:
        stop = found + FOOTER_SIZE
        if data[stop - len(_EMPTY) : stop] == _EMPTY:
            (at,) = struct.unpack("<Q", data[found + len(_FOOTER) : found + len(_FOOTER) + 8])
            return stop, _read_index(data, at, found)
        end = found
    return 0, None


def member(data: Lines, place: tuple[int, int]) -> bytes:
    """The lines of a member. Raises DataError for a damaged one."""
    try:
        return gzip.decompress(data[place[0] : place[0] + place[1]])
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"a compressed part of the trace, at byte {place[0]}, is damaged: {error}") from None


def named(index: Index, file: str) -> Index:
    """``index`` with summaries that name ``file``."""
    episodes = {
        key: (member, revised(summary, file=file)) for key, (member, summary) in index.episodes.items()
    }
    return Index(index.end, index.members, episodes)


def copied(source: BinaryIO, target: BinaryIO, size: int) -> None:
    """Copy the first ``size`` bytes."""
    source.seek(0)
    while size and (data := source.read(min(size, 1 << 20))):
        target.write(data)
        size -= len(data)


def _read_index(data: Lines, at: int, end: int) -> Index:
    try:
        row = read_json(member(data, (at, end - at)))
        index = Index(at, [(int(offset), int(length)) for offset, length in row["members"]])
        for number, *values, actions in row["episodes"]:
            named = dict(zip(_FIELDS, values, strict=True))
            summary = Summary(file="", **named, actions=tuple(action_of(action) for action in actions))
            index.episodes[summary.key] = (number, summary)
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise DataError(f"the index of the trace is damaged: {error!r}") from None
    return index


def _member(lines: bytes) -> bytes:
    return gzip.compress(lines, LEVEL, mtime=0)
