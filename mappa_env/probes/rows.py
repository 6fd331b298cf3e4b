"""Which rows of train.csv the rows of X_train are.

Rows may have been dropped, drawn or sorted. The labels of a frame's index tell, as pandas keeps them, or the
values of columns that are those of train.csv, also scaled, or ranks. What is ambiguous tells nothing.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mappa_env.probes.association import MANY_VALUES, association
from mappa_env.probes.csv_table import CsvTable
from mappa_env.probes.plain import Table

FEW_ROWS = 20
"""With fewer rows, equal columns may be a coincidence."""
_SAME_ROWS = 0.99
"""The association of a feature with its column in train.csv from which their rows count as the same."""
_MOST_COLUMNS, _MOST_KEYS, _MOST_ROWS = 40, 12, 4000
"""Columns that are compared, those that are matched by values, and rows of X_train."""
_NEIGHBOURS = 0.9
"""A column that goes together with itself by so much, one row further, does not tell rows apart."""
_SAME_VALUES, _SAME_COUNTS = 0.99, 0.95
"""The share of a column's values that occur in train.csv, and as often as there."""
_FOUND, _CLEAR, _BY_CHANCE = 0.95, 0.5, 0.5
"""The share of rows whose values are found, of those that only one row has, and that codes find by chance."""
_EQUAL = 1e-6
"""The distance of equal values, in parts of their range: float32 has them so."""
_ENDS, _SAMPLE = 3, 64
"""The places at each end of a column that a scaled end may have, and values that try each."""

_BLOCK, _MOST_DROPPED, _MOST_RANKED, _CLEAR_BLOCKS = 16, 200, 2, 0.25
"""Rows of a block, rows dropped and columns with which ranks are compared, and the share of rows found so."""

Places = NDArray[np.intp]


class Rows(NamedTuple):
    """The ``names`` of the columns that go together with those of train.csv, row by row.

    Row ``mine[i]`` of X_train is row ``given[i]`` of train.csv. Without any, only the values of these columns
    are those of train.csv. ``in_place``: both are the same rows, and none is missing.
    """

    names: list[str]
    mine: Places
    given: Places
    in_place: bool = False


def rows_of(x: Table, targets: list[str], train: CsvTable) -> Rows:
    """The rows of X_train, as far as it can be told."""
    none = np.zeros(0, dtype=np.intp)
    shared = [name for name in x.names if name in train.header and name not in targets][:_MOST_COLUMNS]
    if not shared or train.rows is None:
        return Rows([], none, none)
    if (found := _by_index(x, shared, train)) is not None:
        return found
    if x.rows == train.rows:
        all_rows = np.arange(min(len(train.head), x.kept))
        if names := _together(x, shared, train, all_rows, all_rows):
            return Rows(names, all_rows, all_rows, in_place=True)
    found = _by_values(x, shared, train)
    return found if len(found.mine) else _by_ranks(x, shared, train) or found


def _together(x: Table, shared: list[str], train: CsvTable, mine: Places, given: Places) -> list[str]:
    """The columns that go together with those of train.csv in these rows."""
    found = {
        name: association(x.column(x.names.index(name))[mine], train.column(name)[given]) for name in shared
    }
    return [name for name, value in found.items() if value is not None and value >= _SAME_ROWS]


def _by_index(x: Table, shared: list[str], train: CsvTable) -> Rows | None:
    """The rows that the index names, if columns go together there that would not one row further."""
    index = x.index
    if not len(index) or index.min() < 0 or train.rows is None or index.max() >= train.rows:
        return None
    mine = np.flatnonzero(index < len(train.head))[:_MOST_ROWS]
    if len(mine) < FEW_ROWS:
        return None
    names = _together(x, shared, train, mine, index[mine])
    if not any(_tells_rows(train, name) for name in names):
        return None
    return Rows(names, mine, index[mine])


def _tells_rows(train: CsvTable, name: str) -> bool:
    column = train.column(name)
    return (association(column[1:], column[:-1]) or 0.0) < _NEIGHBOURS


def _by_values(x: Table, shared: list[str], train: CsvTable) -> Rows:
    """The rows whose values only one row has, in X_train and in train.csv.

    If not all rows of train.csv are at hand, only those of X_train that would be among them in their order.
    """
    none = np.zeros(0, dtype=np.intp)
    whole = len(train.head) == train.rows
    dropped = (train.rows or 0) - x.rows
    most = min(x.kept, _MOST_ROWS if whole else len(train.head) - dropped if dropped >= 0 else 0)
    if most < FEW_ROWS:
        return Rows([], none, none)
    keys: dict[str, tuple[Places, Places, bool]] = {}
    for name in shared:
        mine, given = x.column(x.names.index(name))[:most], train.column(name)
        if mine.dtype.kind == given.dtype.kind == "f" and len(keys) < _MOST_KEYS:
            codes = _coded(mine, given, counted=dropped >= 0)
            keys |= {} if codes is None else {name: codes}
    # Codes such as 0, 1, 2 may have the values of a column by chance, but not its categories.
    certain = [
        name for name, (_, given, run) in keys.items() if not run or given.max(initial=0) < MANY_VALUES
    ]
    matched = _matched(list(keys.values()), ordered=not whole) if keys else None
    return Rows(certain, none, none) if matched is None else _among(x, shared, train, matched)


def _among(x: Table, shared: list[str], train: CsvTable, places: tuple[Places, Places]) -> Rows:
    return Rows(_together(x, shared, train, *places), *places)


def _by_ranks(x: Table, shared: list[str], train: CsvTable) -> Rows | None:
    """The blocks of rows that a column ranks as it ranks one block of train.csv, and no other near it.

    So few rows were dropped that most blocks lost none. Any function that only rises or falls keeps ranks.
    """
    dropped = (train.rows or 0) - x.rows
    blocks = min(x.kept, len(train.head) - dropped) // _BLOCK
    if not 0 < dropped <= min(_MOST_DROPPED, x.rows // 4) or blocks * _BLOCK < FEW_ROWS:
        return None
    starts = np.arange(blocks)[:, None] * _BLOCK + np.arange(dropped + 1)
    tried = 0
    for name in shared:
        mine, given = x.column(x.names.index(name)), train.column(name)
        if not mine.dtype.kind == given.dtype.kind == "f" or len(np.unique(given)) < len(given) / 2:
            continue
        if tried == _MOST_RANKED or np.isnan(given).any():
            continue
        tried += 1
        theirs = _ranked(np.lib.stride_tricks.sliding_window_view(given, _BLOCK))[starts]
        alike = np.abs(
            np.einsum("bsk,bk->bs", theirs, _ranked(mine[: blocks * _BLOCK].reshape(blocks, _BLOCK)))
        )
        best = alike.argmax(axis=1)
        second = np.sort(alike, axis=1)[:, -2]
        clear = np.flatnonzero((alike.max(axis=1) >= _SAME_ROWS) & (second < _NEIGHBOURS))
        if len(clear) * _BLOCK < max(FEW_ROWS, _CLEAR_BLOCKS * x.rows) or (np.diff(best[clear]) < 0).any():
            continue
        within = np.arange(_BLOCK)
        places = [(each[:, None] + within).ravel() for each in (clear * _BLOCK, starts[clear, best[clear]])]
        return _among(x, shared, train, (places[0], places[1]))
    return None


def _ranked(blocks: NDArray[Any]) -> NDArray[np.float64]:
    """The ranks in each row of ``blocks``, so that the product of two is their correlation."""
    ranks = blocks.argsort(axis=1, kind="stable").argsort(axis=1) - (_BLOCK - 1) / 2
    found: NDArray[np.float64] = ranks / np.sqrt((ranks[0] ** 2).sum())
    return found


def _coded(mine: NDArray[Any], given: NDArray[Any], *, counted: bool) -> tuple[Places, Places, bool] | None:
    """Both columns in codes of the values of ``given`` (-1: none), if those of ``mine`` are among them.

    True: the values are whole numbers in a row. ``counted``: none may occur more often than in ``given``.
    """
    values, codes = np.unique(given, return_inverse=True)
    values = values[: len(values) - int(np.isnan(values[-1:]).sum())]
    if len(values) < 2 or not np.isfinite(values).all() or not np.isfinite(mine).all():
        return None
    codes = np.where(codes < len(values), codes, -1)
    with np.errstate(all="ignore"):
        for each in _unscaled(mine, values):
            found = _places(each, values)
            if np.mean(found >= 0) < _SAME_VALUES:
                continue
            counts = [np.bincount(places[places >= 0], minlength=len(values)) for places in (found, codes)]
            if not counted or np.minimum(*counts).sum() >= _SAME_COUNTS * len(mine):
                run = bool(values[0] == np.round(values[0]) and (np.diff(values) == 1).all())
                return found, codes, run
    return None


def _unscaled(mine: NDArray[Any], values: NDArray[Any]) -> list[NDArray[Any]]:
    """``mine`` and, if it has other values, ``mine`` brought to the range of ``values``.

    Rows at the ends of the range may be missing.
    """
    if np.mean(_places(mine[:_SAMPLE], values) >= 0) >= _SAME_VALUES:
        return [mine]
    low, high, found = mine.min(), mine.max(), []
    for first in values[:_ENDS] if low < high else ():
        for last in values[-_ENDS:][::-1]:
            scaled = first + (mine - low) * ((last - first) / (high - low))
            if first < last and np.mean(_places(scaled[:_SAMPLE], values) >= 0) >= _SAME_VALUES:
                found.append(scaled)
    return found


def _places(cells: NDArray[Any], values: NDArray[Any]) -> Places:
    """Where the ``cells`` are among the sorted ``values``; -1: nowhere."""
    at = np.searchsorted(values, cells).clip(1, len(values) - 1)
    at -= cells - values[at - 1] <= values[at] - cells
    return np.where(np.abs(cells - values[at]) <= _EQUAL * (values[-1] - values[0]), at, -1)


def _matched(keys: list[tuple[Places, Places, bool]], *, ordered: bool) -> tuple[Places, Places] | None:
    """The rows with equal codes. None: too few are found, or codes would find rows by chance."""
    weights = np.random.default_rng(0).integers(1, 2**62, len(keys))
    mine, given = (np.stack([key[at] for key in keys], axis=1) @ weights for at in (0, 1))
    known = np.all([key[1] >= 0 for key in keys], axis=0)
    places = np.flatnonzero(known)
    values, first, counts = np.unique(given[places], return_index=True, return_counts=True)
    if not len(values):
        return None

    def at(cells: NDArray[Any]) -> Places:
        found = np.searchsorted(values, cells).clip(0, len(values) - 1)
        return np.where(values[found] == cells, found, -1)

    found = at(mine)
    if np.mean(found >= 0) < _FOUND:
        return None
    for weight, (codes, others, run) in zip(weights, keys, strict=True):
        kinds = others.max() + 1
        turned = mine + weight * ((codes + 1) % kinds - codes)
        if run and kinds > 2 and np.mean(at(turned) >= 0) >= _BY_CHANCE:
            return None
    once = np.bincount(found[found >= 0], minlength=len(values)) == 1
    clear = np.flatnonzero((found >= 0) & (once & (counts == 1))[found])
    if len(clear) < max(FEW_ROWS, _CLEAR * len(mine)):
        return None
    theirs = places[first[found[clear]]]
    if ordered and np.mean(np.diff(theirs) > 0) < _SAME_ROWS:
        return None
    return clear, theirs
