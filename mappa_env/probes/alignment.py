"""Whether the rows and the scales of exported tables are those of the task's own tables."""

from __future__ import annotations

from collections import Counter

import numpy as np

from mappa_env.probes.association import Column, association
from mappa_env.probes.columns import places_of
from mappa_env.probes.csv_table import CsvTable
from mappa_env.probes.labels import share_equal
from mappa_env.probes.plain import Table
from mappa_env.probes.rows import FEW_ROWS, Rows

_OFF = 1.0
"""Standard deviations by which most values of a column may differ from what X_train has for the same ones."""


def labels_follow(
    x: Table, y: Table, targets: list[str], train: CsvTable, rows: Rows, *, labels: bool
) -> float | None:
    """The least ``association`` of a column of y_train with its target, in the ``rows`` of X_train.

    None: these rows are not known, or too few of many are, or nobody can tell which column is which target.
    """
    if not rows.names or y.rows != x.rows or not y.names:
        return None
    known = rows.mine < y.kept
    if not rows.in_place and known.sum() < FEW_ROWS:
        return None
    mine, given = rows.mine[known], rows.given[known]
    found = [
        _follows(y.column(place)[mine], train.column(name)[given], labels=labels)
        for name, place in zip(targets, places_of(y, targets), strict=False)
    ]
    return min((value for value in found if value is not None), default=None)


def _follows(mine: Column, given: Column, *, labels: bool) -> float | None:
    follow = association(mine, given)
    if follow is None and len(mine) >= FEW_ROWS and share_equal(mine[:1].repeat(len(mine)), mine) == 1:
        return _commonest(given)  # one and the same label in all of these rows
    # Labels that changed places go together with the true ones, too.
    return follow if follow is None or not labels else min(follow, share_equal(mine, given))


def _commonest(column: Column) -> float:
    """The share of the value that most rows have."""
    return round(max(Counter(column.tolist()).values()) / len(column), 3)


def rows_follow(z: Table, test: CsvTable, train: CsvTable, kept: list[str]) -> float | None:
    """The least ``association`` of a column of X_test, among the ``kept`` ones, with that in test.csv.

    One column that left its rows is enough to mislead a model. Texts that train.csv lacks do not count: there
    is no code for them.
    """
    if z.rows != test.rows or z.rows < FEW_ROWS:
        return None
    most, found = min(len(test.head), z.kept), []
    for name in (name for name in kept if name in z.names and name in test.header):
        mine, given = z.column(z.names.index(name))[:most], test.column(name)[:most]
        if given.dtype.kind != "f":
            seen = np.isin(given.astype(str), train.column(name).astype(str))
            mine, given = mine[seen], given[seen]
        if len(mine) >= FEW_ROWS:
            found.append(association(mine, given))
    return min((value for value in found if value is not None), default=None)


def rescaled(x: Table, z: Table, train: CsvTable, test: CsvTable, rows: Rows) -> list[str] | None:
    """The columns of numbers that became others in X_test than the same values in X_train.

    ``rows``: which columns, and which rows of train.csv those of X_train are. ``_OFF`` tells by how much:
    tables may be scaled each by itself. None: no column can be compared.
    """
    if z.rows != test.rows or z.rows < FEW_ROWS or not len(rows.mine):
        return None
    seen, found = False, []
    for name in (name for name in rows.names if name in z.names and name in test.header):
        least = min(len(test.head), z.kept)
        before, after = train.column(name)[rows.given], x.column(x.names.index(name))[rows.mine]
        asked, got = test.column(name)[:least], z.column(z.names.index(name))[:least]
        if any(each.dtype.kind != "f" for each in (before, after, asked, got)):
            continue
        known = np.isfinite(before) & np.isfinite(after)
        values, first = np.unique(before[known], return_index=True)
        with np.errstate(all="ignore"):  # values as large as this have no scale
            spread = float(np.std(after[known])) if known.any() else 0.0
        if len(values) < 2 or not spread > 0:
            continue
        inside = np.isfinite(asked) & np.isfinite(got) & (asked >= values[0]) & (asked <= values[-1])
        if inside.sum() < FEW_ROWS:
            continue
        seen = True
        with np.errstate(all="ignore"):
            expected = np.interp(asked[inside], values, after[known][first])
            off = np.median(np.abs(got[inside] - expected))
        found += [name] if off > _OFF * spread else []
    return found if seen else None
