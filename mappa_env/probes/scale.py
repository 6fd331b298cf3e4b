"""The scale of y_train, where its numbers are those of train.csv transformed, as by ``log1p``.

Each of its columns has its own, and they may be in another order than the targets.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mappa_env.probes.association import MANY_VALUES
from mappa_env.probes.columns import places_of
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
_MOST_ROWS, _MOST_SHARES = 10_000, 2000
"""Rows whose values, and shares whose quantiles, are compared."""
_DROPPED = 0.1
"""The share of rows without which the others still tell whether their values moved."""
_FAR = 0.25
"""How far values may move, in standard deviations, that were jittered or smoothed."""
_OUTER = 0.05
"""The share of values at each end whose slope continues beyond it."""
_SMOOTH = 0.5
"""Neighbours among values that are a function of others are closer than this part of any two."""
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


class Scales(NamedTuple):
    """Of each target, its place among the columns of y_train, and their scale (None: that of train.csv)."""

    places: tuple[int, ...]
    each: tuple[Scale | None, ...]

    @property
    def others(self) -> bool:
        """Whether a column has another scale."""
        return any(scale is not None for scale in self.each)

    @property
    def by_rank(self) -> bool:
        """Whether ranks alone tell a scale."""
        return any(scale is not None and scale.by_rank for scale in self.each)

    @property
    def turned(self) -> bool:
        """Whether the columns are in another order than the targets."""
        return list(self.places) != sorted(self.places)

    def falling(self) -> Scales:
        """With every scale that ranks tell counted from the other end."""
        ends = (scale.falling() if scale is not None and scale.by_rank else scale for scale in self.each)
        return self._replace(each=tuple(ends))

    def undone(self, predictions: Sequence[Any]) -> list[Any] | None:
        """Predictions as the task asks for them, one number or one row of numbers each.

        None if they are not such rows, or too large.
        """
        if self.places == (0,):
            return None if self.each[0] is None else self.each[0].undone(predictions)
        if not all(isinstance(row, list) and len(row) == len(self.places) for row in predictions):
            return None
        columns: list[Sequence[float] | None] = []
        for place, scale in zip(self.places, self.each, strict=True):
            column = [row[place] for row in predictions]
            columns.append(column if scale is None else scale.undone(column))
        usable = [column for column in columns if column is not None]
        return [list(row) for row in zip(*usable, strict=True)] if len(usable) == len(columns) else None


def scale_of(y: Table, targets: Sequence[str], train: CsvTable) -> Scales | None:
    """The scales of y_train and the order of its columns.

    None: both are those of train.csv, or cannot be told.
    """
    places = places_of(y, targets)
    each = tuple(
        _scale(y, place, train, name) if y.numeric[place] else None
        for name, place in zip(targets, places, strict=False)
    )
    found = Scales(places, each)
    return found if found.others or found.turned else None


def _scale(y: Table, place: int, train: CsvTable, target: str) -> Scale | None:
    """The scale of a column of y_train; None if it is that of its target in train.csv, or cannot be told.

    Any monotone transformation has one, whatever its formula is. Where rows were dropped or drawn, so that
    those of y_train are unknown, ranks tell the transformation, but not whether it rises or falls.
    """
    given = train.column(target)
    most = len(given) if y.rows == train.rows else y.kept
    mine = y.column(place)[:most]
    if given.dtype.kind != "f" or not (np.abs(mine) < _LARGEST).all() or (np.abs(given) > _LARGEST).any():
        return None
    if y.rows != train.rows:
        return _by_ranks_of(y, place, train, target)
    given = given[: len(mine)]
    if not np.isfinite(given).all():
        return None
    values, first = np.unique(mine, return_index=True)
    partners = given[first]
    if len(values) <= MANY_VALUES:
        return None
    if np.median(np.abs(values - partners)) <= _SAME * np.std(partners):
        return None
    steps = np.diff(partners)
    if (steps > 0).all() or (steps < 0).all():
        return Scale(values, partners) if len(values) >= _KEPT * len(np.unique(given)) else None
    if _is_smooth(mine, given):
        return None  # a function of its rows that nobody can undo
    return _by_ranks_of(y, place, train, target)  # its rows may be in another order, or drawn


def _is_smooth(mine: NDArray[np.float64], given: NDArray[np.float64]) -> bool:
    """Whether ``mine`` is a function of ``given``, row by row."""
    ordered = mine[np.argsort(given, kind="stable")]
    apart = np.abs(np.sort(mine) - np.median(mine)).mean()
    return bool(np.abs(np.diff(ordered)).mean() < _SMOOTH * apart)


def _by_ranks_of(y: Table, place: int, train: CsvTable, target: str) -> Scale | None:
    known = train.sorted_of(target)  # all of them: some rows may be the ones that were dropped
    if known is None or y.kept != y.rows or min(y.rows, len(known)) <= MANY_VALUES:
        return None
    return _by_rank(y.column(place), known) if max(-known[0], known[-1]) <= _LARGEST else None


def _by_rank(mine: NDArray[np.float64], known: NDArray[np.float64]) -> Scale | None:
    """The scale by which the distributions of both are one. ``known``: numbers of train.csv, increasing.

    None for rows that were selected, repeated, jittered or smoothed: they have the values of ``known``, its
    ends, or about its middle and its spread, unless too few rows were dropped to move all values so far.
    """
    rows = len(mine)
    ends = np.abs([mine.min() - known[0], mine.max() - known[-1]])
    if rows > _MOST_ROWS:
        mine = np.random.default_rng(rows).choice(mine, _MOST_ROWS, replace=False)
    mine, spread = np.sort(mine), float(np.std(known))
    at = np.searchsorted(known, mine).clip(1, len(known) - 1)
    off = np.minimum(np.abs(mine - known[at - 1]), np.abs(mine - known[at]))
    if np.mean(off <= _EQUAL * np.abs(mine)) > 1 / 2 or (ends <= _ENDS * np.ptp(known)).all():
        return None
    near = abs(np.median(mine) - np.median(known)) <= spread
    alike = near and spread <= _WIDER * np.std(mine) and np.std(mine) <= _WIDER * spread
    if alike and not _moved(mine, known, rows / len(known)):
        return None
    shares = np.linspace(0, 1, min(len(mine), len(known), _MOST_SHARES))
    values, partners = _quantiles(mine, shares), _quantiles(known, shares)
    rising = np.flatnonzero((np.diff(values) > 0) & (np.diff(partners) > 0))
    return Scale(values[rising], partners[rising], by_rank=True) if len(rising) > MANY_VALUES else None


def _moved(mine: NDArray[np.float64], known: NDArray[np.float64], kept: float) -> bool:
    """Whether most values went one way, by more than the rows that were dropped explain; both increase.

    ``kept``: the share of rows that is left. The smallest of the others may be gone, or the largest.
    """
    if not 1 - _DROPPED <= kept <= 1:
        return False
    shares = np.linspace(0, 1, _MOST_SHARES)
    least, most = _quantiles(known, shares * kept), _quantiles(known, shares * kept + 1 - kept)
    values = _quantiles(mine, shares)
    beyond = np.maximum(values - most, 0) + np.minimum(values - least, 0)
    return bool(abs(np.median(beyond)) > _FAR * np.std(known))


def _quantiles(known: NDArray[np.float64], shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """Of numbers that increase; numpy's own function takes seconds for many shares of many numbers."""
    return np.interp(shares * (len(known) - 1), np.arange(len(known)), known)
