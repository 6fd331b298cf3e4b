"""Means with intervals, and paired differences. Needs only numpy and scipy.

Bootstrap intervals are percentile intervals from a fixed seed, so the same data give the same figures.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from mappa_env.errors import StatsError

_CHUNK = 2_000_000  # values resampled at once: bounds the memory at 16 MB


class Interval(NamedTuple):
    """A mean of ``n`` values and the ends of its confidence interval, ``math.nan`` where they are unknown."""

    mean: float
    low: float
    high: float
    n: int

    @property
    def bounded(self) -> bool:
        """Whether the ends are known."""
        return not math.isnan(self.low)

    @property
    def unbounded(self) -> Interval:
        """The same mean without ends; in JSON they are null."""
        return self._replace(low=math.nan, high=math.nan)


def mean_ci(
    values: ArrayLike,
    confidence: float = 0.95,
    *,
    groups: Sequence[Hashable] | None = None,
    problems: Sequence[Hashable] | None = None,
    resamples: int = 4000,
    seed: int = 0,
) -> Interval:
    """Mean with its percentile bootstrap interval.

    With ``groups`` (one label per value) values are redrawn within their group only, so that the make-up of
    the sample (families, seeds) does not count as noise. Where one problem was tried several times, name the
    ``problems`` (one id per value): repeats are averaged and problems are redrawn, for repeats are not
    independent evidence; ``n`` then counts problems, and a problem must lie within one group. Raises
    ``StatsError`` for no or non-finite values.
    """
    data = _finite(values)
    if problems is not None:
        ids = _labels(problems, len(data))
        if groups is not None:
            strata = dict(zip(ids.tolist(), groups, strict=True))
            if any(strata[i] != g for i, g in zip(ids.tolist(), groups, strict=True)):
                raise StatsError("a problem lies in more than one group; stratify by what problems share.")
            groups = [strata[i] for i in range(len(strata))]
        data = np.bincount(ids, weights=data) / np.bincount(ids)
    labels = _labels(groups, len(data)) if groups is not None else np.zeros(len(data), np.int64)
    rng = np.random.default_rng(seed)
    sums = np.zeros(resamples)
    for label in range(labels.max() + 1):
        mine = data[labels == label]
        step = max(1, _CHUNK // len(mine))
        for start in range(0, resamples, step):
            size = min(step, resamples - start)
            sums[start : start + size] += mine[rng.integers(len(mine), size=(size, len(mine)))].sum(axis=1)
    low, high = np.quantile(sums / len(data), _tails(confidence))
    return Interval(float(data.mean()), float(low), float(high), len(data))


def wilson(successes: int, n: int, confidence: float = 0.95) -> Interval:
    """Success rate ``successes / n`` with Wilson's score interval, which is sound at 0 and 1 too."""
    if n < 1 or not 0 <= successes <= n:
        raise StatsError(f"{successes} successes of {n} trials: needs n >= 1 and 0 <= successes <= n.")
    return Interval(successes / n, *_score_ends(successes / n, n, confidence), n)


def share_ci(shares: ArrayLike, draws: int = 1, confidence: float = 0.95) -> Interval:
    """Mean of one share in [0, 1] for each task, of ``draws`` independent episodes each. ``n`` counts tasks.

    Wilson's interval with an effective number of episodes, so that it holds near 0 and 1, too, where a
    bootstrap is empty. The episodes of a task are not independent. Their design effect comes from the
    variance of the shares, with Student's quantile for few tasks, and lies between 1 and ``draws`` (Korn and
    Graubard 1998, Survey Methodology 24; with Wilson's interval Dean and Pagano 2015, Journal of Survey
    Statistics and Methodology 3). Where few tasks have successes, or few have failures, that variance is
    itself uncertain: the design effect then leans towards ``draws``, as if one more such task had been seen
    whose episodes all agreed. With one draw this is ``wilson``. Raises StatsError for shares outside [0, 1].
    """
    data = _finite(shares)
    if draws < 1 or data.min() < 0 or data.max() > 1:
        raise StatsError(
            f"shares from {data.min():g} to {data.max():g} of {draws} draws: needs 0 to 1, and >= 1."
        )
    tasks, rate, effect = len(data), float(data.mean()), float(draws)
    if draws > 1 and tasks > 1 and 0 < rate < 1:
        upper = _tails(confidence)[1]
        wider = float(special.stdtrit(tasks - 1, upper)) / NormalDist().inv_cdf(upper)
        estimate = draws * float(data.var(ddof=1)) / (rate * (1 - rate)) * wider**2
        seen = min(int((data > 0).sum()), int((data < 1).sum()))
        effect = min(max((seen * estimate + draws) / (seen + 1), 1.0), draws)
    return Interval(rate, *_score_ends(rate, tasks * draws / effect, confidence), tasks)


def _score_ends(rate: float, n: float, confidence: float) -> tuple[float, float]:
    """The ends of Wilson's score interval."""
    z = NormalDist().inv_cdf(_tails(confidence)[1])
    spread = z * z / n
    centre = (rate + spread / 2) / (1 + spread)
    half = z * (rate * (1 - rate) / n + spread / (4 * n)) ** 0.5 / (1 + spread)
    # The ends are exact at 0 and 1; there, rounding could leave the rate just outside its own interval.
    return max(0.0, min(rate, centre - half)), min(1.0, max(rate, centre + half))


def paired_delta(
    before: ArrayLike,
    after: ArrayLike,
    confidence: float = 0.95,
    *,
    problems: Sequence[Hashable] | None = None,
    groups: Sequence[Hashable] | None = None,
    resamples: int = 4000,
    seed: int = 0,
) -> Interval:
    """Mean of ``after - before``, entry by entry, with a bootstrap over what was paired.

    ``problems`` and ``groups`` as in ``mean_ci``.
    """
    first, second = _finite(before), _finite(after)
    if len(first) != len(second):
        raise StatsError(f"{len(first)} values before but {len(second)} after; pairs need both.")
    return mean_ci(
        second - first, confidence, groups=groups, problems=problems, resamples=resamples, seed=seed
    )


def student(values: ArrayLike, confidence: float = 0.95) -> Interval:
    """Mean of a few independent values, such as one per seed, with Student's t interval.

    A bootstrap of so few values is too narrow. Raises ``StatsError`` for fewer than two values.
    """
    data = _finite(values)
    if len(data) < 2:
        raise StatsError(f"{len(data)} value has no spread: an interval over seeds needs two or more.")
    mean = float(data.mean())
    quantile = float(special.stdtrit(len(data) - 1, _tails(confidence)[1]))
    half = quantile * float(data.std(ddof=1)) / len(data) ** 0.5
    return Interval(mean, mean - half, mean + half, len(data))


def _finite(values: ArrayLike) -> NDArray[np.float64]:
    data = np.asarray(values, np.float64)
    if data.ndim != 1 or not data.size or not np.isfinite(data).all():
        bad = int((~np.isfinite(data)).sum())
        raise StatsError(
            f"needs a flat list of finite numbers, found shape {data.shape} with {bad} non-finite values; "
            "leave out what was not measured."
        )
    return data


def _labels(names: Sequence[Hashable], n: int) -> NDArray[np.int64]:
    if len(names) != n:
        raise StatsError(f"{len(names)} labels for {n} values; give one each.")
    index: dict[Hashable, int] = {}
    return np.array([index.setdefault(name, len(index)) for name in names], np.int64)


def _tails(confidence: float) -> tuple[float, float]:
    if not 0 < confidence < 1:
        raise StatsError(f"confidence={confidence} must lie between 0 and 1, for instance 0.95.")
    return (1 - confidence) / 2, (1 + confidence) / 2
