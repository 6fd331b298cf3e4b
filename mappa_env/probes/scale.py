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
_LARGEST = 1e100
"""Values of this size are no target: their squares overflow."""
_EQUAL = 1e-6
"""The relative distance of values that are one: float32 has them so."""
_ENDS = 0.05
"""The distance, in parts of the range, of the ends of values on one scale whose rows are unknown."""
_WIDER = 2.5
"""The ratio of the spreads of values on one scale whose rows are unknown."""
_OUTER = 0.05
"""The share of values at each end whose slope continues beyond it."""
_KEPT = 0.95
"""The least share of distinct values that a transformation keeps: with fewer it cannot be undone."""


class Scale(NamedTuple):
    """Values of y_train, increasing, and those of the same rows in train.csv: both (values,).

    ``by_rank``: they are not of the same rows, but of the same rank, which the rows that were dropped move.
    """

    mine: NDArray[np.float64]
    given: NDArray[np.float64]
    by_rank: bool = False

    def falling(self) -> Scale:
        """The same ranks, counted from the other end."""
        return self._replace(given=self.given[::-1])

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
    """The scale of y_train; None if it is that of train.csv, or cannot be told.

    Any monotone transformation has one, whatever its formula is. Where rows were dropped or drawn, so that
    those of y_train are unknown, ranks tell the transformation, but not whether it rises or falls.
    """
    if len(targets) != 1 or y.numeric != (True,):
        return None
    given = train.column(targets[0])
    most = len(given) if y.rows == train.rows else y.kept
    mine = y.column(0)[:most]
    if given.dtype.kind != "f" or not (np.abs(mine) < _LARGEST).all() or (np.abs(given) > _LARGEST).any():
        return None
    if y.rows != train.rows:
        given = given[np.isfinite(given)]  # these rows may be the ones that were dropped
        whole = len(train.head) == train.rows and y.kept == y.rows
        return _by_rank(mine, given) if whole and min(len(mine), len(given)) > MANY_VALUES else None
    given = given[: len(mine)]
    if not np.isfinite(given).all():
        return None
    values, first = np.unique(mine, return_index=True)
    partners = given[first]
    if len(values) <= MANY_VALUES or len(values) < _KEPT * len(np.unique(given)):
        return None
    if np.median(np.abs(values - partners)) <= _SAME * np.std(partners):
        return None
    steps = np.diff(partners)
    return Scale(values, partners) if (steps > 0).all() or (steps < 0).all() else None


def _by_rank(mine: NDArray[np.float64], given: NDArray[np.float64]) -> Scale | None:
    """The scale by which the distributions of both are one.

    None for rows that were selected, repeated, jittered or smoothed: they have the values of ``given``, its
    ends, or about its middle and its spread.
    """
    known, spread = np.sort(given), float(np.std(given))
    at = np.searchsorted(known, mine).clip(1, len(known) - 1)
    off = np.minimum(np.abs(mine - known[at - 1]), np.abs(mine - known[at]))
    ends = np.abs([mine.min() - known[0], mine.max() - known[-1]])
    if np.mean(off <= _EQUAL * np.abs(mine)) > 1 / 2 or (ends <= _ENDS * np.ptp(known)).all():
        return None
    near = abs(np.median(mine) - np.median(known)) <= spread
    if near and spread <= _WIDER * np.std(mine) and np.std(mine) <= _WIDER * spread:
        return None
    shares = np.linspace(0, 1, min(len(mine), len(given)))
    values, partners = (np.quantile(each, shares).astype(np.float64) for each in (mine, given))
    rising = np.flatnonzero((np.diff(values) > 0) & (np.diff(partners) > 0))
    return Scale(values[rising], partners[rising], by_rank=True) if len(rising) > MANY_VALUES else None
