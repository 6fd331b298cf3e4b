"""Rows made from the rows of a real table, so that knowing the table does not give away their answers.

A mixed row has no source row: it is a sum of PARTS real rows of one group (a class, or neighbouring values
of the target) with random weights. Then each column gets its own scale. A join with the real table on
values, rounded values, ranks or ratios of columns thus finds nothing. Means and covariances of each group
remain.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

PARTS = 9
"""Real rows per mixed row: more than any task has features, so that the parts cannot be solved for."""
BINS = 6
"""Groups of neighbouring target values."""


def mixed(rows: Floats, groups: Floats, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """As many mixed rows of each group as it has ``rows``, and their groups, in random order.

    ``rows``: (n, k). Values stay within the range that each column has in the group.
    """
    made = np.empty_like(rows)
    for group in np.unique(groups):
        at = np.flatnonzero(groups == group)
        own = rows[at]
        centre = own.mean(axis=0)
        for row in at:
            weights = rng.standard_normal(min(PARTS, len(at)))
            weights /= np.linalg.norm(weights)  # keeps the covariance
            parts = own[rng.choice(len(own), size=len(weights), replace=False)]
            made[row] = centre + weights @ (parts - centre)
        made[at] = made[at].clip(own.min(axis=0), own.max(axis=0))
    order = rng.permutation(len(rows))
    return made[order], groups[order]


def bins(values: Floats) -> Floats:
    """The group of each value: BINS groups of about equal size, in order of the values."""
    cuts = np.quantile(values, np.linspace(0, 1, BINS + 1)[1:-1])
    return np.searchsorted(cuts, values).astype(float)


def rescaled(x: Floats, rng: np.random.Generator) -> Floats:
    """Each column on a random monotone scale, rising or falling, with about its old mean and spread.

    ``x``: (n, k), without constant columns. Models that split columns, such as forests, do not notice.
    """
    n_columns = x.shape[1]
    bend, sharp = rng.uniform(0.5, 1.5, n_columns), rng.uniform(0.7, 2.0, n_columns)
    middle, spread = rng.normal(0.0, 0.7, n_columns), rng.uniform(0.5, 2.0, n_columns)
    z = (x - x.mean(axis=0)) / x.std(axis=0)
    z = z + bend * np.tanh(sharp * (z - middle))
    sign = rng.choice((-1.0, 1.0), n_columns)
    return np.asarray(x.mean(axis=0) + x.std(axis=0) * spread * sign * z)
