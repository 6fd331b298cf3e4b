"""Competition metrics in numpy, and skill: the position of a score between a constant and a reference.

Labels are compared as canonical text (``canonical``), everything else as float64. All functions take arrays
of equal length with at least one row; none raises on valid values and none returns NaN.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from mappa_env.errors import OptionError, nearest

Array = NDArray[Any]
Takes = Literal["label", "score", "probability", "number", "nonnegative"]

MAX_ABS = 1e15
"""Larger predictions are refused, because their squares must be finite."""
MAX_SKILL = 1.25
LEAST_GAP = 0.1
"""The least part of the way from the constant to a perfect score at which skill is 1."""
_EPS = 1e-15


def canonical(text: str) -> str:
    """One spelling per label: ``" 1.0 "`` and ``"1"`` are the same class, ``"Low"`` and ``"low"`` are not."""
    text = text.strip()
    head, dot, tail = text.partition(".")
    if dot and not tail.strip("0") and head.lstrip("+-").isdecimal():
        return head
    return text


def _accuracy(truth: Array, pred: Array) -> float:
    return float(np.mean(truth == pred))


def _f1_of(label: str, truth: Array, pred: Array) -> float:
    hits = float(np.sum((truth == label) & (pred == label)))
    total = float(np.sum(truth == label) + np.sum(pred == label))
    return 2.0 * hits / total if total else 0.0


def _f1(truth: Array, pred: Array) -> float:
    """F1 of the positive class: ``"1"``, else the last label in order (``"yes"`` of ``no, yes``)."""
    labels = sorted(set(truth))
    return _f1_of("1" if "1" in labels or "0" in labels else labels[-1], truth, pred)


def _macro_f1(truth: Array, pred: Array) -> float:
    return float(np.mean([_f1_of(label, truth, pred) for label in sorted(set(truth) | set(pred))]))


def weighted_f1(truth: Array, pred: Array) -> float:
    """F1 of every class, weighted by its frequency in ``truth``."""
    labels, counts = np.unique(truth, return_counts=True)
    scores = [_f1_of(label, truth, pred) for label in labels]
    return float(np.average(scores, weights=counts))


def _qwk(truth: Array, pred: Array) -> float:
    """Quadratic weighted kappa: 1 - observed / expected squared distance (0 if all values are equal)."""
    t, p = truth.astype(float), pred.astype(float)
    expected = float(np.mean(t**2) + np.mean(p**2) - 2 * np.mean(t) * np.mean(p))
    return 1.0 - float(np.mean((t - p) ** 2)) / expected if expected > 0 else 0.0


def _roc_auc(truth: Array, pred: Array) -> float:
    """Area under the ROC curve by mid-ranks; 0.5 if the truth has only one class."""
    positive = truth == truth.max() if truth.max() > truth.min() else np.zeros(len(truth), dtype=bool)
    n = int(positive.sum())
    if n == 0:
        return 0.5
    _, inverse, counts = np.unique(pred, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2.0)[inverse]
    return float((ranks[positive].sum() - n * (n + 1) / 2.0) / (n * (len(truth) - n)))


def _log_loss(truth: Array, pred: Array) -> float:
    p = np.clip(pred, _EPS, 1 - _EPS)
    return float(-np.mean(truth * np.log(p) + (1 - truth) * np.log1p(-p)))


def multiclass_log_loss(truth: Array, pred: Array) -> float:
    """Log loss of (rows, classes) arrays: one-hot truth, and probabilities, which are normalised."""
    p = np.clip(pred, _EPS, None)
    return float(-np.mean(np.sum(truth * np.log(p / p.sum(axis=1, keepdims=True)), axis=1)))


def _mse(truth: Array, pred: Array) -> float:
    return float(np.mean((truth - pred) ** 2))


def _rmse(truth: Array, pred: Array) -> float:
    return float(np.sqrt(_mse(truth, pred)))


def _rmsle(truth: Array, pred: Array) -> float:
    return _rmse(np.log1p(np.maximum(truth, 0.0)), np.log1p(pred))


def _mae(truth: Array, pred: Array) -> float:
    return float(np.mean(np.abs(truth - pred)))


def _median_ae(truth: Array, pred: Array) -> float:
    return float(np.median(np.abs(truth - pred)))


def _r2(truth: Array, pred: Array) -> float:
    spread = float(np.mean((truth - truth.mean()) ** 2))
    return 1.0 - _mse(truth, pred) / spread if spread > 0 else 0.0


def _smape(truth: Array, pred: Array) -> float:
    """Symmetric mean absolute percentage error, 0 to 200; a row of two zeros counts as correct."""
    scale = np.abs(truth) + np.abs(pred)
    return float(200.0 * np.mean(np.abs(truth - pred) / np.where(scale > 0, scale, 1.0)))


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric. ``takes``: the kind of predictions it needs; ``ideal``: the score of the truth itself."""

    name: str
    takes: Takes
    higher_is_better: bool
    function: Callable[[Array, Array], float]

    @property
    def ideal(self) -> float:
        """The score of perfect predictions."""
        return 1.0 if self.higher_is_better else 0.0

    def illegal(self, pred: Array) -> str | None:
        """Why these numbers are not valid predictions (None: they are). The grader checks labels."""
        if self.takes == "label":
            return None
        if not np.all(np.isfinite(pred)):
            return f"{int(np.sum(~np.isfinite(pred)))} predictions are not finite"
        if np.any(np.abs(pred) > MAX_ABS):
            return f"a prediction is larger than {MAX_ABS:g}"
        if self.takes == "probability" and np.any((pred < 0) | (pred > 1)):
            return f"{self.name} needs probabilities between 0 and 1, found {float(_outside(pred)):g}"
        if self.takes == "nonnegative" and np.any(pred < 0):
            return f"{self.name} needs predictions >= 0, found {float(pred.min()):g}"
        return None


def _outside(pred: Array) -> float:
    return float(pred[(pred < 0) | (pred > 1)][0])


METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric("accuracy", "label", True, _accuracy),
        Metric("f1", "label", True, _f1),
        Metric("macro_f1", "label", True, _macro_f1),
        Metric("qwk", "label", True, _qwk),
        Metric("roc_auc", "score", True, _roc_auc),
        Metric("log_loss", "probability", False, _log_loss),
        Metric("rmse", "number", False, _rmse),
        Metric("mse", "number", False, _mse),
        Metric("mae", "number", False, _mae),
        Metric("median_ae", "number", False, _median_ae),
        Metric("smape", "number", False, _smape),
        Metric("r2", "number", True, _r2),
        Metric("rmsle", "nonnegative", False, _rmsle),
    )
}


def metric_named(name: str) -> Metric:
    """The metric ``name``. Raises OptionError for an unknown one."""
    if name not in METRICS:
        raise OptionError(
            f"unknown metric {name!r}; choose from {sorted(METRICS)}." + nearest(str(name), METRICS)
        )
    return METRICS[name]


def higher_is_better(name: str) -> bool:
    """Whether a higher score is better. Raises OptionError for an unknown metric."""
    return metric_named(name).higher_is_better


def evaluate(name: str, truth: Array, pred: Array) -> float:
    """The score of valid predictions: text arrays for label metrics, float arrays for the others."""
    return metric_named(name).function(truth, pred)


def skill(score: float, constant: float, reference: float, metric: str) -> float:
    """0 at the score of the constant, 1 at the score of the reference model, linear, within 0..MAX_SKILL.

    The formula is the same for every metric, so that classification and regression are comparable. It is
    continuous in all three scores: a reference that covers less than LEAST_GAP of the way from the constant
    to a perfect score counts as if it covered just that, so that a tiny gap does not magnify chance. The only
    jump: where the constant itself is perfect, an equal score has skill 1.
    """
    known = metric_named(metric)
    sign = 1.0 if known.higher_is_better else -1.0
    gained = sign * (score - constant)
    gap = max(sign * (reference - constant), LEAST_GAP * sign * (known.ideal - constant))
    if gap <= 0:
        return 1.0 if gained >= 0 else 0.0
    return float(np.clip(gained / gap, 0.0, MAX_SKILL))
