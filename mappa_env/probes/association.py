"""How far two columns go together, row by row."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

MANY_VALUES = 20
"""Columns of numbers with more distinct values are compared by rank, others by category."""

_LEAST = 1e-9

Column = NDArray[Any]
"""float64 (NaN: missing), or objects (str; None: missing)."""


def association(a: Column, b: Column) -> float | None:
    """0 (not at all) to 1 (wholly), of two columns of equal length. None: it cannot be told.

    Two columns of numbers, one with many values: the rank correlation, without its sign. Others: Cramer's V
    without what chance adds to it, which is all of it where a value occurs in one row only.
    """
    both = ~(missing(a) | missing(b))
    a, b = a[both], b[both]
    if not len(a):
        return None
    (values_a, codes_a, counts_a), (values_b, codes_b, counts_b) = (
        np.unique(each, return_inverse=True, return_counts=True) for each in (a, b)
    )
    if min(len(values_a), len(values_b)) < 2:
        return None
    if a.dtype.kind == b.dtype.kind == "f" and max(len(values_a), len(values_b)) > MANY_VALUES:
        found = abs(float(np.corrcoef(_ranks(codes_a, counts_a), _ranks(codes_b, counts_b))[0, 1]))
    else:
        # Cells of the contingency table that are empty count by what is expected of them, which sums up.
        cells, counts = np.unique(codes_a * len(values_b) + codes_b, return_counts=True)
        expected = counts_a[cells // len(values_b)] * counts_b[cells % len(values_b)]
        chi2_per_row = float((counts.astype(float) ** 2 / expected).sum()) - 1
        free_a, free_b, rows = len(values_a) - 1, len(values_b) - 1, max(1, len(a) - 1)
        most = min(free_a - free_a**2 / rows, free_b - free_b**2 / rows)
        if most < _LEAST:
            return None
        found = math.sqrt(max(0.0, chi2_per_row - free_a * free_b / rows) / most)
    return round(min(found, 1.0), 3) if math.isfinite(found) else None


def missing(column: Column) -> NDArray[np.bool_]:
    """Where values are missing."""
    if column.dtype.kind == "f":
        return np.isnan(column)
    return np.array([cell is None for cell in column], dtype=bool)


def _ranks(codes: NDArray[Any], counts: NDArray[Any]) -> NDArray[np.float64]:
    """Ranks with the mean rank for equal values."""
    last = np.cumsum(counts)
    ranks: NDArray[np.float64] = ((last - counts + 1 + last) / 2)[codes]
    return ranks
