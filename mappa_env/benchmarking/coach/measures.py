"""The arithmetic of the reports: proportions and means with intervals, ranks, calibration."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

Z = 1.959964


@dataclass(frozen=True, slots=True)
class Proportion:
    """A proportion (0-1) of ``n`` cases with its 95 % interval; weights may reduce the effective size."""

    value: float
    low: float
    high: float
    n: int


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean with its 95 % interval (normal)."""

    value: float
    low: float
    high: float
    n: int


def wilson(value: float, n: float) -> tuple[float, float]:
    """95 % interval of a proportion of ``n`` cases (Wilson 1927); NaN where n is 0."""
    if n <= 0:
        return math.nan, math.nan
    middle, half = value + Z * Z / (2 * n), Z * math.sqrt(value * (1 - value) / n + Z * Z / (4 * n * n))
    return (middle - half) / (1 + Z * Z / n), (middle + half) / (1 + Z * Z / n)


def proportion(hits: Sequence[float], weights: Sequence[float] | None = None) -> Proportion:
    """The weighted proportion of ``hits`` (0-1); Wilson's interval at Kish's effective size, (Σw)²/Σw²."""
    if not hits:
        return Proportion(math.nan, math.nan, math.nan, 0)
    w = np.ones(len(hits)) if weights is None else np.asarray(weights, float)
    value = float(np.clip(np.dot(w, hits) / w.sum(), 0.0, 1.0))
    low, high = wilson(value, float(w.sum() ** 2 / (w @ w)))
    return Proportion(value, min(low, value), max(high, value), len(hits))


def mean(values: Sequence[float]) -> Mean:
    """The mean of ``values``; NaN without values; a single value has no interval."""
    if not values:
        return Mean(math.nan, math.nan, math.nan, 0)
    x = np.asarray(values, float)
    half = Z * float(x.std(ddof=1)) / math.sqrt(len(x)) if len(x) > 1 else math.nan
    return Mean(float(x.mean()), float(x.mean()) - half, float(x.mean()) + half, len(x))


def auc(scores: Sequence[float], positive: Sequence[bool]) -> float:
    """P(score of a positive > score of a negative), ties count half; NaN if one side is empty."""
    ranks, hits = _ranks(scores), np.asarray(positive, bool)
    p, n = int(hits.sum()), int((~hits).sum())
    return float((ranks[hits].sum() - p * (p + 1) / 2) / (p * n)) if p and n else math.nan


def spearman(x: Sequence[float], y: Sequence[float]) -> float:
    """Rank correlation; NaN if one side is constant."""
    a, b = _ranks(x), _ranks(y)
    if len(a) < 2 or a.std() == 0 or b.std() == 0:
        return math.nan
    return float(np.corrcoef(a, b)[0, 1])


@dataclass(frozen=True, slots=True)
class Bin:
    """Episodes with a mean score (0-1) in [low, high): their number, mean score and success rate."""

    low: float
    high: float
    n: int
    score: float
    success: float


def reliability(scores: Sequence[float], success: Sequence[bool], bins: int = 5) -> tuple[list[Bin], float]:
    """Bins of equal width over scores in 0-1, and the expected calibration error: Σ n/N |score - success|."""
    x, y = np.asarray(scores, float), np.asarray(success, float)
    at = np.minimum((x * bins).astype(int), bins - 1)
    found, error = [], 0.0
    for i in range(bins):
        mine = at == i
        if n := int(mine.sum()):
            found.append(Bin(i / bins, (i + 1) / bins, n, float(x[mine].mean()), float(y[mine].mean())))
            error += n / len(x) * abs(found[-1].score - found[-1].success)
    return found, error if len(x) else math.nan


def percentile(values: Sequence[float], q: float) -> float:
    """The ``q``-th percentile (0-100) of ``values``; NaN without values."""
    return float(np.percentile(np.asarray(values, float), q)) if values else math.nan


def pooled_sd(groups: Sequence[Sequence[float]]) -> float:
    """The standard deviation within groups of two or more values; NaN without such groups."""
    pairs = [(float(np.var(g, ddof=1)), len(g) - 1) for g in groups if len(g) > 1]
    free = sum(n for _, n in pairs)
    return math.sqrt(sum(v * n for v, n in pairs) / free) if free else math.nan


def _ranks(values: Sequence[float]) -> np.ndarray:
    """Ranks from 1; ties get the mean of their ranks."""
    x = np.asarray(values, float)
    _, inverse, counts = np.unique(x, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return np.asarray((last - (counts - 1) / 2)[inverse], float)
