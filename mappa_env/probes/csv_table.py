"""A task's own CSV file, as far as a probe compares with it."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

import numpy as np

from mappa_env.probes.association import Column

_MISSING = frozenset(("", "NA", "N/A", "n/a", "#N/A", "nan", "NaN", "-nan", "null", "NULL", "None", "<NA>"))
_FLAGS = {"true": 1.0, "false": 0.0}


@dataclass(frozen=True, slots=True)
class CsvTable:
    """``header``, the number of all rows (None: the file is unreadable), and the first rows as text."""

    header: tuple[str, ...] = ()
    rows: int | None = None
    head: tuple[tuple[str, ...], ...] = ()
    _columns: dict[str, Column] = field(default_factory=dict, compare=False, repr=False)

    def column(self, name: str) -> Column:
        """The first rows of a column: numbers where all of its values are numbers, else text."""
        if name not in self._columns:
            self._columns[name] = self._read(name)
            self._columns[name].flags.writeable = False
        return self._columns[name]

    def _read(self, name: str) -> Column:
        at = self.header.index(name)
        cells = [row[at].strip() if at < len(row) else "" for row in self.head]
        given = [None if cell in _MISSING else cell for cell in cells]
        try:
            numbers = [np.nan if cell is None else _FLAGS.get(cell.lower()) for cell in given]
            return np.array(
                [float(c or 0) if n is None else n for n, c in zip(numbers, given, strict=True)], dtype=float
            )
        except ValueError:
            return np.array(given, dtype=object)


def read_csv(content: bytes | Path | None, most: int) -> CsvTable:
    """Count the rows of a task's file, and keep the first ``most``. None: the task has no such file."""
    if content is None:
        return CsvTable()
    try:
        with _opened(content) as stream:
            reader = csv.reader(stream)
            header = tuple(next(reader))
            head, count = [], 0
            for row in _filled(reader):
                count += 1
                if count <= most:
                    head.append(tuple(row))
    except (OSError, ValueError, StopIteration, csv.Error):
        return CsvTable()
    return CsvTable(header, count, tuple(head))


def _filled(rows: Iterator[list[str]]) -> Iterator[list[str]]:
    return (row for row in rows if row)


def _opened(content: bytes | Path) -> TextIO:
    if isinstance(content, Path):
        return content.open(encoding="utf-8-sig", newline="")
    return io.TextIOWrapper(io.BytesIO(content), encoding="utf-8-sig", newline="")
