"""One trace file: what is in it, and each episode on demand."""

from __future__ import annotations

import gzip
import mmap
import os
import zlib
from collections.abc import Iterator
from pathlib import Path

from mappa_env.errors import DataError
from mappa_env.trace.decoding import decoded
from mappa_env.trace.packing import GZIP, Index, member, named, tail_of
from mappa_env.trace.recorded import Recorded, Summary
from mappa_env.trace.scanning import Lines, Scan
from mappa_env.trace.writer.client import settle


class TraceFile:
    """Reads the trace at ``path``, which may still be growing. ``name`` is what summaries call it.

    Raises OSError if it cannot be read, DataError if it is not a trace.
    """

    def __init__(self, path: str | Path, name: str = "") -> None:
        self.path = Path(path)
        self.name = name or str(path)
        self._state: tuple[int, int, int] | None = None
        self._data: Lines = b""
        self._index = Index()
        self._scan = Scan(self.name)
        self._end = 0
        """Up to where the plain lines have been read."""
        self._member: tuple[int, bytes, Scan] | None = None
        self.refresh()

    def refresh(self) -> bool:
        """Read what has been written since, by this program too. Returns whether the file has changed."""
        settle()
        with self.path.open("rb") as file:
            stat = os.fstat(file.fileno())
            state = (stat.st_dev, stat.st_ino, stat.st_size)
            if state == self._state:
                return False
            grown = self._state is not None and state[:2] == self._state[:2] and state[2] > self._state[2]
            size = stat.st_size
            self._data = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ) if size else b""
        if not grown:
            self._begin(size)
        self._end = self._scan.read(self._data, self._end)
        self._state = state
        return True

    def _begin(self, size: int) -> None:
        """Forget what was read: this is another file."""
        self._member, self._scan = None, Scan(self.name)
        self._end, index = tail_of(self._data, size)
        self._index = Index() if index is None else named(index, self.name)
        if index is None and self._data[:2] == GZIP:  # packed by another program
            try:
                self._data = gzip.decompress(self._data[:size])
            except (OSError, EOFError, zlib.error) as error:
                raise DataError(f"{self.path} is not a trace: {error}") from None

    @property
    def recognised(self) -> bool:
        """Whether it is a trace, as far as it goes: empty, or with a line of one, or the first under way."""
        begun = self._end == 0 and b'{"v":'.startswith(self._data[:5])
        return begun or bool(self._index.members) or self._scan.recognised

    @property
    def summaries(self) -> Iterator[Summary]:
        """Every complete episode, in the order in which they ended."""
        for _, summary in self._index.episodes.values():
            yield summary
        for _, found in self._scan.complete:
            assert found.summary is not None
            yield found.summary

    def load(self, key: str) -> Recorded:
        """The episode ``key`` with everything. Raises KeyError for an unknown one, DataError."""
        if key in self._index.episodes:
            number, _ = self._index.episodes[key]
            if self._member is None or self._member[0] != number:
                lines = member(self._data, self._index.members[number])
                scan = Scan(self.name)
                scan.read(lines, 0)
                self._member = (number, lines, scan)
            _, lines, scan = self._member
            return decoded(lines, scan, key)
        found = self._scan.episodes[key]
        if found.summary is None:
            raise KeyError(key)
        return decoded(self._data, self._scan, key)

    def __iter__(self) -> Iterator[Recorded]:
        """Every complete episode with everything."""
        return (self.load(summary.key) for summary in self.summaries)
