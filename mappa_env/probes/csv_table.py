"""A task's own CSV file, as far as a probe compares with it."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

import numpy as np

from mappa_env.probes.association import Column

_MISSING = frozenset(("", "NA", "N/A", "n/a", "#N/A", "nan", "NaN", "-nan", "null", "NULL", "None", "<NA>"))
_FLAGS = {"true": 1.0, "false": 0.0}


_MOST_CELLS = 2**17
"""Of longer files, only the first rows of all columns are kept."""


@dataclass(frozen=True, slots=True)
class CsvTable:
    """``header``, the number of all rows (None: the file is unreadable), and the first rows as text.

    ``whole``: all cells of some columns, if there are more rows.
    """

    header: tuple[str, ...] = ()
    rows: int | None = None
    head: tuple[tuple[str, ...], ...] = ()
    whole: Mapping[str, Sequence[str]] = field(default_factory=dict, compare=False, repr=False)
    _read: dict[tuple[str, bool], Column] = field(default_factory=dict, compare=False, repr=False)

    def column(self, name: str) -> Column:
        """The first rows of a column, for reading only: numbers where all values are numbers, else text."""
        at = self.header.index(name)
        if (name, False) not in self._read:
            self._read[name, False] = _typed([row[at] if at < len(row) else "" for row in self.head])
            self._read[name, False].flags.writeable = False
        return self._read[name, False]

    def sorted_of(self, name: str) -> Column | None:
        """All numbers of a column, increasing; None if it has texts, or not all of its rows were kept."""
        if len(self.head) < (self.rows or 0) and name not in self.whole:
            return None
        if (name, True) not in self._read:
            every = _typed(self.whole[name]) if name in self.whole else self.column(name)
            found = np.sort(every[np.isfinite(every)]) if every.dtype.kind == "f" else every
            self._read[name, True] = found
        known = self._read[name, True]
        return known if known.dtype.kind == "f" else None


def _typed(cells: Sequence[str]) -> Column:
    stripped = map(str.strip, cells)
    given = [None if cell in _MISSING else cell for cell in stripped]
    try:
        numbers = [np.nan if cell is None else _FLAGS.get(cell.lower()) for cell in given]
        return np.array(
            [float(c or 0) if n is None else n for n, c in zip(numbers, given, strict=True)], dtype=float
        )
    except ValueError:
        return np.array(given, dtype=object)


def read_csv(content: bytes | Path | None, most: int, other: CsvTable | None = None) -> CsvTable:
    """Count the rows of a task's file, and keep the first ``most``. None: the task has no such file.

    ``other``: columns that it lacks are kept with all their rows.
    """
    if content is None:
        return CsvTable()
    try:
        with _opened(content) as stream:
            reader = csv.reader(stream)
            header = tuple(next(reader))
            head, count = [], 0
            wanted = [at for at, name in enumerate(header) if other is not None and name not in other.header]
            cells: list[list[str]] = [[] for _ in wanted]
            for row in _filled(reader):
                count += 1
                if count <= most:
                    head.append(tuple(row))
                if count * len(wanted) <= _MOST_CELLS:
                    for at, column in zip(wanted, cells, strict=True):
                        column.append(row[at] if at < len(row) else "")
    except (OSError, ValueError, StopIteration, csv.Error):
        return CsvTable()
    whole = {header[at]: column for at, column in zip(wanted, cells, strict=True) if len(column) == count}
    return CsvTable(header, count, tuple(head), whole if count > most else {})


def _filled(rows: Iterator[list[str]]) -> Iterator[list[str]]:
    return (row for row in rows if row)


def _opened(content: bytes | Path) -> TextIO:
    if isinstance(content, Path):
        return content.open(encoding="utf-8-sig", newline="")
    return io.TextIOWrapper(io.BytesIO(content), encoding="utf-8-sig", newline="")


def targets_in(train: CsvTable, test: CsvTable) -> list[str]:
    """The columns that test.csv lacks."""
    return [name for name in train.header if name not in test.header]
