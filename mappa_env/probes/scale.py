"""The scale of y_train, where its numbers are those of train.csv transformed, as by ``log1p``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mappa_env.probes.association import MANY_VALUES
from mappa_env.probes.csv_table import CsvTable
from mappa_env.probes.plain import Table

_SAME = 0.01
"""A scale is another one if most values move by more than this, in standard deviations of the target: values
that are rounded or clipped keep theirs."""
_OUTER = 0.05
"""The share of values at each end whose slope continues beyond it."""
_KEPT = 0.95
"""The least share of distinct values that a transformation keeps: with fewer it cannot be undone."""


class Scale(NamedTuple):
    """Values of y_train, increasing, and those of the same rows in train.csv: both (values,)."""

    mine: NDArray[np.float64]
    given: NDArray[np.float64]

    def undone(self, predictions: Sequence[Any]) -> list[float] | None:
        """Predictions in the scale of train.csv; None if they are not numbers, or too large."""
        if not all(isinstance(each, (int, float)) for each in predictions):
            return None
        # Linear beyond the ends, which a linear model may leave.
        values, found = np.asarray(predictions, dtype=float), np.interp(predictions, self.mine, self.given)
        inner = max(1, int(_OUTER * len(self.mine)))
        with np.errstate(all="ignore"):
            ends = ((values < self.mine[0], 0, inner), (values > self.mine[-1], -1, -1 - inner))
            for beyond, end, near in ends:
                slope = (self.given[end] - self.given[near]) / (self.mine[end] - self.mine[near])
                found = np.where(beyond, self.given[end] + slope * (values - self.mine[end]), found)
        return [float(f"{each:.6g}") for each in found] if np.isfinite(found).all() else None


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
    if np.median(np.abs(values - partners)) <= _SAME * np.std(partners):
        return None
    steps = np.diff(partners)
    return Scale(values, partners) if (steps > 0).all() or (steps < 0).all() else None
