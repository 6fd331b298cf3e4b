"""Columns that tell the target in X_train and nothing in X_test: features that were made from the target."""

from __future__ import annotations

import numpy as np

from mappa_env.probes.association import association
from mappa_env.probes.csv_table import CsvTable
from mappa_env.probes.plain import Table

_TELLS = 0.7
"""The least association with a column of y_train."""
_BY_CHANCE = 1e-6
"""The chance that so many rows of X_train, drawn at random, all have their commonest value."""
_MOST = 8
"""Columns that are looked into."""


def lost(x: Table, y: Table, test: Table, given: CsvTable) -> list[str]:
    """The names of columns with many values in X_train and one in X_test, as chance hardly makes them.

    None of test.csv's own columns of one value: that is how the task is. ``given``: test.csv.
    """
    if x.names != test.names or x.rows != y.rows or not test.kept or not (x.kept and all(test.numeric)):
        return []
    same = (test.numbers == test.numbers[:1]).all(axis=0)
    found: list[str] = []
    for at in np.flatnonzero(same):
        name = test.names[at]
        if not x.numeric[at] or len(found) == _MOST or _is_given(name, given):
            continue
        rows = min(x.kept, y.kept)
        column = x.column(int(at))[:rows]
        _, counts = np.unique(column, return_counts=True)
        if len(counts) < 2 or (counts.max() / rows) ** test.kept > _BY_CHANCE:
            continue
        tells = [association(column, y.column(place)[:rows]) for place in range(len(y.names))]
        if max((value for value in tells if value is not None), default=0.0) >= _TELLS:
            found.append(name)
    return found


def _is_given(name: str, given: CsvTable) -> bool:
    """Whether test.csv itself has such a column, of one value."""
    return name in given.header and len(set(given.column(name).tolist())) == 1
