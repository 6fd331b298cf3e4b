"""The formulas of the metrics. ``mappa_env.grading.metrics`` says what each takes and which way is better.

All functions take arrays of equal length with at least one row: labels and texts as objects, everything else
as float64. None raises on legal values and none returns NaN.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

EPS = float(np.finfo(np.float64).eps)
"""Probabilities are clipped to EPS..1-EPS, as by scikit-learn and so in DSBench's published tables (2.2e-16).

A hard wrong row costs 36.04. Kaggle's servers clipped at 1e-15, where it costs 34.54.
"""
LISTED = 3
"""The number of labels that count in a ranked list."""


def accuracy(truth: Array, pred: Array) -> float:
    """The fraction of equal labels."""
    return float(np.mean(truth == pred))


def f1_of(label: str, truth: Array, pred: Array) -> float:
    """F1 of one class: 2 hits / (rows of the class + predictions of the class)."""
    hits = float(np.sum((truth == label) & (pred == label)))
    total = float(np.sum(truth == label) + np.sum(pred == label))
    return 2.0 * hits / total if total else 0.0


def f1(truth: Array, pred: Array) -> float:
    """F1 of the positive class: ``"1"``, else the last label in order (``"yes"`` of ``no, yes``)."""
    labels = sorted(set(truth))
    return f1_of("1" if "1" in labels or "0" in labels else labels[-1], truth, pred)


def macro_f1(truth: Array, pred: Array) -> float:
    """The mean F1 over the classes that occur in either array."""
    return float(np.mean([f1_of(label, truth, pred) for label in sorted(set(truth) | set(pred))]))


def micro_f1(truth: Array, pred: Array) -> float:
    """F1 of the pooled counts; with one label a row it equals the accuracy."""
    hits = float(np.sum(truth == pred))
    wrong = 2.0 * (len(truth) - hits)  # each wrong row is a false positive of one class, a miss of another
    return 2.0 * hits / (2.0 * hits + wrong)


def weighted_f1(truth: Array, pred: Array) -> float:
    """F1 of every class, weighted by its frequency in ``truth``."""
    labels, counts = np.unique(truth, return_counts=True)
    scores = [f1_of(label, truth, pred) for label in labels]
    return float(np.average(scores, weights=counts))


def qwk(truth: Array, pred: Array) -> float:
    """Quadratic weighted kappa: 1 - observed / expected squared distance (0 if all values are equal)."""
    t, p = truth.astype(float), pred.astype(float)
    expected = float(np.mean(t**2) + np.mean(p**2) - 2 * np.mean(t) * np.mean(p))
    return 1.0 - float(np.mean((t - p) ** 2)) / expected if expected > 0 else 0.0


def map_at_3(truth: Array, pred: Array) -> float:
    """Mean of 1 / rank of the true label among the first three of a list, 0 if it is not among them."""
    ranks = (_first(label, listed) for label, listed in zip(truth, pred, strict=True))
    return float(np.mean([0.0 if rank is None else 1.0 / (1 + rank) for rank in ranks]))


def hit_at_3(truth: Array, pred: Array) -> float:
    """The fraction of rows whose true label is among the first three of a list."""
    return float(
        np.mean([_first(label, listed) is not None for label, listed in zip(truth, pred, strict=True)])
    )


def _first(label: str, listed: str) -> int | None:
    labels = listed.split()[:LISTED]
    return labels.index(label) if label in labels else None


def jaccard(truth: Array, pred: Array) -> float:
    """Mean over rows of |common words| / |all words|, in lower case; 1 if neither text has a word."""
    return float(np.mean([_common(t, p) for t, p in zip(truth, pred, strict=True)]))


def _common(one: str, other: str) -> float:
    a, b = set(one.lower().split()), set(other.lower().split())
    return len(a & b) / len(a | b) if a | b else 1.0


def roc_auc(truth: Array, pred: Array) -> float:
    """Area under the ROC curve by mid-ranks; 0.5 if the truth has only one class."""
    positive = truth == truth.max() if truth.max() > truth.min() else np.zeros(len(truth), dtype=bool)
    n = int(positive.sum())
    if n == 0:
        return 0.5
    return float((ranks(pred)[positive].sum() - n * (n + 1) / 2.0) / (n * (len(truth) - n)))


def normalized_gini(truth: Array, pred: Array) -> float:
    """Gini of the order by ``pred`` / Gini of the true order; 2 AUC - 1 for two classes.

    Equal predictions share their mean rank, so that the order of the rows is never worth anything.
    """
    best = _gini(truth, truth)
    return _gini(truth, pred) / best if best > 0 else 0.0


def _gini(truth: Array, pred: Array) -> float:
    total = float(truth.sum())
    return float(np.sum(truth * ranks(pred))) / total - (len(truth) + 1) / 2.0 if total > 0 else 0.0


def ranks(values: Array) -> Array:
    """Ranks from 1; equal values share their mean rank."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(counts) - (counts - 1) / 2.0)[inverse])


def pearson(truth: Array, pred: Array) -> float:
    """Pearson's correlation; 0 if either side is constant."""
    t, p = _unit(truth), _unit(pred)
    return float(np.clip(np.sum(t * p), -1.0, 1.0))


def _unit(values: Array) -> Array:
    """Deviations from the mean, of length 1; zeros if the values are equal."""
    spread = values - values.mean()
    if np.ptp(values) == 0:
        return np.zeros(len(values))
    spread = spread / np.abs(spread).max()
    return np.asarray(spread / np.sqrt(np.sum(spread**2)))


def spearman(truth: Array, pred: Array) -> float:
    """Pearson's correlation of the ranks; 0 if either side is constant."""
    return pearson(ranks(truth), ranks(pred))


def log_loss(truth: Array, pred: Array) -> float:
    """The mean of -log of the probability of what is true, for two classes."""
    p = np.clip(pred, EPS, 1 - EPS)
    return float(-np.mean(truth * np.log(p) + (1 - truth) * np.log1p(-p)))


def multiclass_log_loss(truth: Array, pred: Array) -> float:
    """Log loss of (rows, classes) arrays: one-hot truth, and probabilities, which are normalised."""
    p = np.clip(pred, EPS, None)
    return float(-np.mean(np.sum(truth * np.log(p / p.sum(axis=1, keepdims=True)), axis=1)))


def mse(truth: Array, pred: Array) -> float:
    """Mean squared error."""
    return float(np.mean((truth - pred) ** 2))


def rmse(truth: Array, pred: Array) -> float:
    """Root mean squared error."""
    return float(np.sqrt(mse(truth, pred)))


def rmsle(truth: Array, pred: Array) -> float:
    """RMSE of log(1 + value)."""
    return rmse(np.log1p(np.maximum(truth, 0.0)), np.log1p(pred))


def mae(truth: Array, pred: Array) -> float:
    """Mean absolute error."""
    return float(np.mean(np.abs(truth - pred)))


def median_ae(truth: Array, pred: Array) -> float:
    """Median absolute error."""
    return float(np.median(np.abs(truth - pred)))


def r2(truth: Array, pred: Array) -> float:
    """1 - squared error / squared deviation from the mean (0 if the truth is constant)."""
    spread = float(np.mean((truth - truth.mean()) ** 2))
    return 1.0 - mse(truth, pred) / spread if spread > 0 else 0.0


def smape(truth: Array, pred: Array) -> float:
    """Symmetric mean absolute percentage error, 0 to 200; a row of two zeros counts as correct."""
    return 100.0 * smape_fraction(truth, pred)


def smape_fraction(truth: Array, pred: Array) -> float:
    """The same as a fraction, 0 to 2."""
    scale = np.abs(truth) + np.abs(pred)
    return float(2.0 * np.mean(np.abs(truth - pred) / np.where(scale > 0, scale, 1.0)))
