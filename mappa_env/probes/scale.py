"""The scale of y_train, where its numbers are those of train.csv transformed, as by ``log1p``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mappa_env.probes.association import MANY_VALUES
from mappa_env.probes.csv_table import CsvTable
from mappa_env.probes.plain import Table

_SAME = 1e-6
"""Relative differences up to this are those of rounding."""
_KEPT = 0.95
"""The least share of distinct values that a transformation keeps: with fewer it cannot be undone."""


class Scale(NamedTuple):
    """Values of y_train, increasing, and those of the same rows in train.csv: both (values,)."""

    mine: NDArray[np.float64]
    given: NDArray[np.float64]

    def undone(self, predictions: Sequence[Any]) -> list[float] | None:
        """Predictions in the scale of train.csv; None if they are not numbers."""
        if not all(isinstance(each, (int, float)) for each in predictions):
            return None
        # Linear beyond the ends, which a linear model may leave.
        found = np.interp(predictions, self.mine, self.given)
        for end, (a, b) in ((np.less, (0, 1)), (np.greater, (-1, -2))):
            slope = (self.given[a] - self.given[b]) / (self.mine[a] - self.mine[b])
            out = end(predictions, self.mine[a])
            found = np.where(out, self.given[a] + slope * (np.asarray(predictions) - self.mine[a]), found)
        return [float(f"{each:.6g}") for each in found]


def scale_of(y: Table, targets: Sequence[str], train: CsvTable) -> Scale | None:
    """The scale of y_train; None if it is that of train.csv, or if the rows are not those of train.csv.

    Any monotone transformation has one, whatever its formula is.
    """
    if len(targets) != 1 or y.rows != train.rows or y.numeric != (True,):
        return None
    most = min(len(train.head), y.kept)
    mine, given = y.column(0)[:most], train.column(targets[0])[:most]
    if given.dtype.kind != "f" or not np.isfinite(mine).all() or not np.isfinite(given).all():
        return None
    values, first = np.unique(mine, return_index=True)
    partners = given[first]
    if len(values) <= MANY_VALUES or len(values) < _KEPT * len(np.unique(given)):
        return None
    spread = _SAME * (1 + np.abs(partners))
    if (np.abs(values - partners) <= spread).all():
        return None
    steps = np.diff(partners)
    return Scale(values, partners) if (steps > 0).all() or (steps < 0).all() else None
