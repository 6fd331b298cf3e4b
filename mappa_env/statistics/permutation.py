"""Permutation tests. Needs only numpy."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from mappa_env.errors import StatsError

RESAMPLES = 9999
_CHUNK = 2_000_000  # values shuffled at once: bounds the memory at 16 MB


def association_p(
    values: ArrayLike,
    against: ArrayLike,
    *,
    strata: Sequence[Hashable] | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> float:
    """How often chance would make ``values`` rise with ``against`` as they do: a one-sided p-value in (0, 1].

    The statistic is their covariance, so for an ``against`` of zeros and ones it is the difference of two
    means. Values are shuffled, only within their stratum if ``strata`` are given (one label per value), so
    that what differs between strata does not count. Exact in the sense that under the null hypothesis
    P(p <= a) <= a. Raises StatsError for fewer than two values, or if either is the same everywhere, or if in
    every stratum one of them is: no shuffling would change anything.
    """
    data, other = np.asarray(values, np.float64), np.asarray(against, np.float64)
    if data.ndim != 1 or data.shape != other.shape or len(data) < 2:
        raise StatsError(
            f"needs two flat lists of one length from 2, found shapes {data.shape}, {other.shape}."
        )
    if not (np.isfinite(data).all() and np.isfinite(other).all()):
        raise StatsError("values must be finite; leave out what was not measured.")
    if np.ptp(data) == 0 or np.ptp(other) == 0:
        raise StatsError("one of the lists holds the same value everywhere, so nothing can be associated.")
    labels = [0] * len(data) if strata is None else list(strata)
    if len(labels) != len(data):
        raise StatsError(f"{len(labels)} strata for {len(data)} values; give one each.")
    blocks = [np.flatnonzero([each == label for each in labels]) for label in dict.fromkeys(labels)]
    if all(np.ptp(data[block]) == 0 or np.ptp(other[block]) == 0 for block in blocks):
        raise StatsError("in each stratum one list holds the same value, so nothing can be shuffled.")
    rng = np.random.default_rng(seed)
    found, drawn = 0.0, np.zeros(resamples)
    for block in blocks:
        mine, centred = data[block], other[block] - other[block].mean()
        found += float(mine @ centred)
        step = max(1, _CHUNK // len(block))
        for start in range(0, resamples, step):
            count = min(step, resamples - start)
            drawn[start : start + count] += rng.permuted(np.tile(mine, (count, 1)), axis=1) @ centred
    margin = 1e-9 * max(1.0, abs(found))  # sums of the same numbers in another order
    return (int((drawn >= found - margin).sum()) + 1) / (resamples + 1)
