"""What a model said, from the files and the output of the program that asked it: read strictly."""

from __future__ import annotations

import csv
import dataclasses
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mappa_env.probes.association import MANY_VALUES
from mappa_env.probes.inside.exporter import MAX_CELLS, MAX_COLUMNS, MAX_ERROR, MAX_NAME, MAX_TEXT
from mappa_env.probes.plain import text
from mappa_env.probes.program import LISTED, OUTPUTS
from mappa_env.types import ToolResult

MAX_ROWS = 2**22
"""Rows that are counted; more are no predictions."""
CONTRADICTION = -1.0
"""The agreement of answers that have nothing in common, not even their form."""
_ROUNDED = 1e-9
"""How much of their size numbers may differ by how sums were rounded."""
_CLOSE = {"rtol": 1e-6, "atol": 1e-9}
"""Sums of floating-point numbers may differ in their last digits from run to run."""
_INTEGER = re.compile(r"-?\d{1,18}")
_LOADED = re.compile(rf"^([^\n]{{1,{MAX_NAME}}}) (True|False) (True|False)$", re.M)
_PLACES = re.compile(r"^places((?: -?\d{1,6})*)$", re.M)
_FRAME = re.compile(r'^ *File "<action>", line (\d{1,6})', re.M)
_TRACE = "Traceback (most recent call last):"


@dataclass(frozen=True, slots=True)
class Array:
    """A table of predictions, (kept, cols) of ``rows``: int64, bool, float64, or objects (str)."""

    rows: int
    values: NDArray[Any]
    names: tuple[str, ...] = ()

    def head(self, rows: int) -> Array:
        """The first rows."""
        return dataclasses.replace(self, rows=min(rows, self.rows), values=self.values[:rows])

    def agreement(self, other: Array) -> float:
        """1 for the same predictions, 0 for no more than chance gives, and less where they contradict.

        1 less the mean distance of the two answers to a row, in units of that of answers to any two rows
        (Krippendorff's alpha): of labels whether they differ, of numbers by how much.
        """
        mine, theirs = self.values, other.values
        if (self.rows, mine.shape, mine.dtype) != (other.rows, theirs.shape, theirs.dtype):
            return CONTRADICTION
        with np.errstate(all="ignore"):
            if mine.dtype.kind == "f" and np.allclose(mine, theirs, equal_nan=True, **_CLOSE):
                return 1.0
        if not mine.size or bool((mine == theirs).all()):
            return 1.0
        if _is_one(mine) != _is_one(theirs):
            return CONTRADICTION
        both = np.concatenate([mine, theirs])
        if mine.dtype.kind in "fi" and len(np.unique(both)) > MANY_VALUES:
            return _beyond_chance(mine.astype(float), theirs.astype(float))
        _, counts = np.unique(both, return_counts=True)
        alike: float = float((counts / both.size * (counts - 1)).sum()) / (both.size - 1)
        differ: float = float((mine != theirs).mean())
        return float(1.0 - differ / (1.0 - alike))


@dataclass(frozen=True, slots=True)
class Said:
    """What a model said. Every field is its author's word, which hidden answers test.

    ``error``: why the program ended early (empty: it did not). ``kind``: the name of its type (empty: it did
    not load). ``has_predict``, ``has_shares``: it has methods for predictions, and for probabilities.
    ``asked``: there was a table to predict. ``probabilities``: one column per class, or per target if their
    names start with ``OUTPUTS``. ``late``: the program took longer than an action may. ``short``: it was
    asked only for what the metric takes. ``places``: where models lie among the things in the file, if the
    program looked; -1: deeper.
    """

    error: str = ""
    kind: str = ""
    has_predict: bool = False
    has_shares: bool = False
    asked: bool = False
    predictions: Array | None = None
    probabilities: Array | None = None
    late: bool = False
    short: bool = False
    places: tuple[int, ...] = ()

    @property
    def loads(self) -> bool:
        """Whether the program came past loading it."""
        return bool(self.kind)

    def with_names_of(self, other: Said) -> Said:
        """With the names of classes that another program asked for."""
        mine, theirs = self.probabilities, other.probabilities
        if mine is None or theirs is None or mine.values.shape[1] != theirs.values.shape[1]:
            return self
        return dataclasses.replace(self, probabilities=dataclasses.replace(mine, names=theirs.names))

    def agreement(self, other: Said) -> float:
        """How much of it another process got from the model too: the least of ``Array.agreement``.

        One that is ``short`` asked less.
        """
        seen = (bool(self.error), self.kind, self.has_predict)
        if seen != (bool(other.error), other.kind, other.has_predict):
            return CONTRADICTION
        answers = [(self.predictions, other.predictions)]
        shares = None if other.probabilities is None else other.probabilities.head(LISTED)
        if other.short and not self.short and shares is not None:
            answers = [(self.probabilities, shares)]
        elif not other.short or self.short:
            answers.append((self.probabilities, other.probabilities))
        if any((a is None) != (b is None) for a, b in answers):
            return CONTRADICTION
        return min((a.agreement(b) for a, b in answers if a is not None and b is not None), default=1.0)


def said(result: ToolResult, predictions: bytes | None, probabilities: bytes | None, *, asked: bool) -> Said:
    """Read one run. ``predictions`` and ``probabilities``: the files that it left; None: it left none."""
    loaded, places = _LOADED.findall(result.stdout), _PLACES.findall(result.stdout)
    kind, predicts, shares = loaded[-1] if loaded else ("", "", "")
    error = "" if result.status == "ok" else failure(result)
    if result.status == "ok" and not kind:
        error = "it ended the program that loaded it"
    return Said(
        error,
        text(kind, MAX_NAME),
        predicts == "True",
        shares == "True",
        asked,
        None if predictions is None else array_in(predictions),
        None if probabilities is None else array_in(probabilities),
        late=result.status == "timeout",
        places=tuple(map(int, places[-1].split())) if places else (),
    )


def submitted(
    result: ToolResult, content: bytes | None, first: Said, *, asked: bool, loads: int, shares: bool
) -> Said:
    """Read one run of a program that submits and leaves a file with this ``content`` (None: it left none).

    It does not say what it loaded; what the ``first`` program said counts unless loading failed: in the first
    ``loads`` lines. ``shares``: it asks for probabilities.
    """
    found = None if content is None else array_in(content)
    error = "" if result.status == "ok" else failure(result)
    if result.status == "ok" and asked and content is None:
        error = "it ended the program that loaded it"
    frames = _FRAME.findall(result.stderr)
    loaded = not error or (asked and not (frames and int(frames[0]) <= loads))
    return dataclasses.replace(
        first,
        error=error,
        kind=first.kind if loaded else "",
        has_predict=first.has_predict and loaded,
        asked=asked,
        predictions=found,
        probabilities=found if shares else None,
        late=result.status == "timeout",
        short=True,
    )


def _is_one(values: NDArray[Any]) -> bool:
    return bool((values == values[:1]).all())


def _beyond_chance(one: NDArray[Any], other: NDArray[Any]) -> float:
    both = np.sort(np.concatenate([one, other]), axis=0)
    count = len(both)
    if not np.isfinite(both).all():
        return CONTRADICTION
    with np.errstate(all="ignore"):
        # The mean distance of all pairs, from their order.
        weights = 2.0 * np.arange(count)[:, None] - count + 1
        chance = 2 * (weights * both).sum(axis=0).mean() / (count * (count - 1))
        found = 1 - np.abs(one - other).mean() / chance
    return float(found) if np.isfinite(found) else CONTRADICTION


def failure(result: ToolResult) -> str:
    """The exception of a program in words, or how its process ended."""
    lines = result.stderr.rpartition(_TRACE)[2].splitlines() if _TRACE in result.stderr else []
    at = next((at for at, line in enumerate(lines) if line and not line.startswith(" ")), None)
    if at is None:
        return f"the process that loaded it ended with {result.status}"
    return text(" ".join(" ".join(lines[at:]).split()), MAX_ERROR)


def array_in(content: bytes) -> Array | None:
    """The table of a CSV file with a header; None if it is no such table."""
    try:
        rows = csv.reader(_lines(content))
        names = tuple(text(name, MAX_TEXT) for name in next(rows))
        most, kept, count = MAX_CELLS // max(1, len(names)), list[list[str]](), 0
        for row in rows:
            if len(row) != len(names):
                return None
            count += 1
            if count <= most:
                kept.append(row)
    except (UnicodeDecodeError, StopIteration, csv.Error):
        return None
    return Array(count, _typed(kept, len(names)), names)


def _lines(content: bytes) -> Iterator[str]:
    """The lines of a file of predictions. Raises csv.Error for what no model predicts: rows of very many
    cells, or very many rows."""
    if content.count(b"\n") > MAX_ROWS:
        raise csv.Error("too many rows")
    quotes = commas = 0
    for line in io.StringIO(content.decode(), newline=""):
        commas += line.count(",")
        quotes += line.count('"')
        if commas >= MAX_COLUMNS:
            raise csv.Error("too many columns")
        if quotes % 2 == 0:  # the row ends here
            commas = 0
        yield line


def _typed(rows: Sequence[Sequence[str]], cols: int) -> NDArray[Any]:
    """Numbers if all cells are numbers (empty: NaN), else text."""
    cells = [cell for row in rows for cell in row]
    values: NDArray[Any]
    if cells and all(map(_INTEGER.fullmatch, cells)):
        values = np.array([int(cell) for cell in cells], dtype=np.int64)
    elif cells and set(cells) <= {"True", "False"}:
        values = np.array([cell == "True" for cell in cells])
    else:
        try:
            values = np.array([float(cell) if cell else np.nan for cell in cells], dtype=float)
        except ValueError:
            values = np.array([text(cell, MAX_TEXT) for cell in cells], dtype=object)
    return values.reshape(len(rows), cols)


def shares_of(array: Array) -> NDArray[Any]:
    """One column of probabilities for two classes, else one per class or target."""
    two = array.values.shape[1] == 2 and not array.names[0].startswith(OUTPUTS)
    return array.values[:, 1:] if two else array.values


def is_constant(values: NDArray[Any]) -> bool:
    """Whether all rows are the same, up to how sums were rounded."""
    if values.dtype.kind != "f" or not np.isfinite(values).all():
        return bool((values == values[:1]).all())
    if not len(values):
        return True
    with np.errstate(over="ignore"):  # a range beyond all numbers is one
        return bool((np.ptp(values, axis=0) <= _ROUNDED * np.abs(values).max(axis=0)).all())
