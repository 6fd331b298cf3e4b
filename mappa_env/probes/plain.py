"""What an exporter printed, as plain arrays: read strictly, because hostile code may have printed it."""

from __future__ import annotations

import base64
import binascii
import dataclasses
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mappa_env.probes.inside.exporter import (
    MAX_CELLS,
    MAX_COLUMNS,
    MAX_ERROR,
    MAX_INDEX,
    MAX_NAME,
    MAX_TEXT,
)
from mappa_env.workspace.escaping import shown

_MOST = 2**53
DIED = "the process that loaded it ended early"


_NO_INDEX = np.zeros(0, dtype=np.int64)


class MalformedError(Exception):
    """No exporter prints this: the code that it loaded did."""


@dataclass(frozen=True, slots=True)
class Table:
    """The first ``kept`` of ``rows`` rows; ``numeric`` says of each column which of the two parts holds it.

    ``numbers``: (kept, numeric columns); ``texts``: one list per other column, None where a value is missing.
    ``names``, ``numeric`` and both parts cover the first columns of ``cols``. ``nan`` and ``inf`` count the
    missing and infinite values of all rows. ``mixed``: some names are texts, others not; ``named``: all are.
    ``index``: the labels of the first rows; empty if they only count the rows, or are no whole numbers.
    """

    rows: int
    cols: int
    kept: int
    names: tuple[str, ...]
    numeric: tuple[bool, ...]
    numbers: NDArray[np.float64]
    texts: tuple[tuple[str | None, ...], ...]
    nan: int
    inf: int
    mixed: bool = False
    named: bool = True
    index: NDArray[np.int64] = dataclasses.field(default_factory=lambda: _NO_INDEX)

    def column(self, at: int) -> NDArray[Any]:
        """The values of one column: float64 with NaN, or objects (str, None where missing)."""
        place = sum(1 for numeric in self.numeric[:at] if numeric == self.numeric[at])
        if self.numeric[at]:
            return self.numbers[:, place]
        return np.array(self.texts[place], dtype=object)

    def columns(self, most: int) -> Iterator[NDArray[Any]]:
        """The first ``most`` values of every column in turn, as ``column`` gives them."""
        numbers, texts = iter(self.numbers[:most].T), iter(self.texts)
        for numeric in self.numeric:
            yield next(numbers) if numeric else np.array(next(texts)[:most], dtype=object)


@dataclass(frozen=True, slots=True)
class Record:
    """What one file yielded. ``error``: why it yielded nothing (empty: it did). ``kind``: name of the type.

    ``unusual``: a table of a kind that is not read here. ``plain``: ``pickle.load`` and
    ``pandas.read_pickle`` load the file. ``stable``: they get what joblib gets. ``unfit``: why scikit-learn
    fits no model to the table as it is (empty: it does).
    """

    error: str = ""
    unusual: bool = False
    kind: str = ""
    table: Table | None = None
    plain: bool = True
    stable: bool = True
    unfit: str = ""


def records(stdout: str, mark: str) -> dict[int, Record]:
    """The first record of each file, by its number. One that no exporter prints counts as an error.

    So does a table that ``pickle.load`` was not seen to yield, too.
    """
    found: dict[int, Record] = {}
    refused: dict[int, tuple[str, bool]] = {}
    for line in stdout.split("\n"):
        if not line.startswith(f"{mark} "):
            continue
        try:
            raw = json.loads(line[len(mark) + 1 :])
            if "again" in raw:
                said = text(raw["refused"], MAX_ERROR), _flag(raw["marked"])
                refused.setdefault(_count(raw["again"]), said)
                continue
            step = _count(raw["step"])
        except (ValueError, TypeError, KeyError, RecursionError, MalformedError):
            continue
        if step not in found:
            try:
                found[step] = _record(raw)
            except (MalformedError, KeyError, TypeError, ValueError):
                found[step] = Record(error="it yields what cannot be read")
    return {step: _as_reread(record, *refused.get(step, (DIED, False))) for step, record in found.items()}


def _as_reread(record: Record, refused: str, marked: bool) -> Record:
    """``record``, given why ``pickle.load`` refused the file; if it is ``marked``, joblib reads it still."""
    if record.error or not refused:
        return record
    return dataclasses.replace(record, plain=False) if marked else Record(error=refused)


def text(value: Any, most: int) -> str:
    """A string of the box, printable and of bounded length."""
    if not isinstance(value, str):
        raise MalformedError(f"a {type(value).__name__} where a text belongs")
    return shown(value[:most])[:most]


def _record(raw: Mapping[str, Any]) -> Record:
    if "error" in raw:
        return Record(error=text(raw["error"], MAX_ERROR) or "unknown", unusual=raw.get("unusual") is True)
    table = raw.get("table")
    return Record(
        kind=text(raw["type"], MAX_NAME),
        table=None if table is None else _table(table),
        plain=raw.get("plain") is True,
        stable=raw.get("stable") is True,
        unfit=text(raw["unfit"], MAX_ERROR),
    )


def _table(raw: Mapping[str, Any]) -> Table:
    rows, cols, kept = (_count(raw[key]) for key in ("rows", "cols", "kept"))
    names = tuple(text(name, MAX_NAME) for name in _list(raw["names"], MAX_COLUMNS))
    kinds = text(raw["kinds"], MAX_COLUMNS)
    if (
        len(names) != len(kinds)
        or len(names) != min(cols, MAX_COLUMNS)
        or kept > rows
        or set(kinds) - {*"nt"}
    ):
        raise MalformedError("a table that contradicts itself")
    texts = tuple(_cells(column, kept) for column in _list(raw["texts"], MAX_COLUMNS))
    numbers = _unpacked(raw["numbers"], "<f8", kept, kinds.count("n"))
    if len(texts) != kinds.count("t"):
        raise MalformedError("a table that contradicts itself")
    missing = int(np.isnan(numbers).sum()) + sum(cell is None for column in texts for cell in column)
    return Table(
        rows,
        cols,
        kept,
        names,
        tuple(kind == "n" for kind in kinds),
        numbers,
        texts,
        max(_count(raw["nan"]), missing),
        max(_count(raw["inf"]), int(np.isinf(numbers).sum())),
        _flag(raw["mixed"]),
        _flag(raw["named"]),
        _unpacked(raw["index"], "<i8", min(kept, MAX_INDEX), 1)[:, 0] if raw["index"] else _NO_INDEX,
    )


def _unpacked(data: Any, dtype: str, rows: int, cols: int) -> NDArray[Any]:
    if not isinstance(data, str) or rows * cols > MAX_CELLS:
        raise MalformedError("no numbers where numbers belong")
    try:
        content = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        raise MalformedError("no numbers where numbers belong") from None
    if len(content) != 8 * rows * cols:
        raise MalformedError(f"{len(content)} bytes for {rows} x {cols} numbers")
    return np.frombuffer(content, dtype).astype(dtype[1:]).reshape(rows, cols)


def _cells(column: Any, kept: int) -> tuple[str | None, ...]:
    cells = _list(column, kept)
    if len(cells) != kept:
        raise MalformedError("a column that is too short")
    return tuple(None if cell is None else text(cell, MAX_TEXT) for cell in cells)


def _list(value: Any, most: int) -> list[Any]:
    if not isinstance(value, list) or len(value) > most:
        raise MalformedError("no list of the right length")
    return value


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise MalformedError(f"{str(value)[:40]!r} where True or False belongs")
    return value


def _count(value: Any) -> int:
    if type(value) is not int or not 0 <= value <= _MOST:
        raise MalformedError(f"{str(value)[:40]!r} where a number belongs")
    return value
