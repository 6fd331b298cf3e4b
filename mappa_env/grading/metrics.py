"""Competition metrics by name, and skill: the position of a score between a constant and a reference.

Labels are compared in their canonical spelling, texts by their words, everything else as float64. Functions
take arrays of equal length with at least one row; none raises on legal values and none returns NaN.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from mappa_env.errors import OptionError, nearest
from mappa_env.grading import formulas
from mappa_env.grading.formulas import Array

Takes = Literal["label", "ranking", "text", "score", "probability", "number", "nonnegative"]
Columns = Literal["one", "mean", "classes"]

MAX_ABS = 1e15
"""Larger predictions are refused, because their squares must be finite."""
MAX_SKILL = 1.25
LEAST_GAP = 0.1
"""The least part of the way from the constant to a perfect score at which skill is 1."""


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric.

    Attributes:
        name: its own name, in reports and in tables of tasks.
        takes: the kind of predictions it needs.
        higher_is_better: which way is better.
        function: the score of one target column: (truth, predictions) -> score.
        lowest: the lowest score of legal predictions; -inf if there is none.
        highest: the highest score; inf if there is none.
        columns: what several target columns are: ``one``: this metric has one (else the mean over them
            counts), ``mean``: the metric is their mean, ``classes``: one probability for each class.
    """

    name: str
    takes: Takes
    higher_is_better: bool
    function: Callable[[Array, Array], float]
    lowest: float = 0.0
    highest: float = 1.0
    columns: Columns = "one"

    @property
    def ideal(self) -> float:
        """The score of perfect predictions."""
        return 1.0 if self.higher_is_better else 0.0

    def illegal(self, pred: Array) -> str | None:
        """Why these numbers are not valid predictions (None: they are). The grader checks labels."""
        if self.takes in ("label", "ranking", "text"):
            return None
        if not np.all(np.isfinite(pred)):
            return f"{int(np.sum(~np.isfinite(pred)))} predictions are not finite"
        if np.any(np.abs(pred) > MAX_ABS):
            return f"a prediction is larger than {MAX_ABS:g}"
        if self.takes == "probability" and np.any((pred < 0) | (pred > 1)):
            return f"{self.name} needs probabilities between 0 and 1, found {float(_outside(pred)):g}"
        if self.takes == "nonnegative" and np.any(pred <= -1):
            return f"{self.name} needs predictions above -1, found {float(pred.min()):g}"
        return None


def _outside(pred: Array) -> float:
    return float(pred[(pred < 0) | (pred > 1)][0])


_INF = float("inf")

METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric("accuracy", "label", True, formulas.accuracy),
        Metric("f1", "label", True, formulas.f1),
        Metric("macro_f1", "label", True, formulas.macro_f1),
        Metric("micro_f1", "label", True, formulas.micro_f1),
        Metric("weighted_f1", "label", True, formulas.weighted_f1),
        Metric("qwk", "label", True, formulas.qwk, lowest=-1.0),
        Metric("map@3", "ranking", True, formulas.map_at_3),
        Metric("hit@3", "ranking", True, formulas.hit_at_3),
        Metric("jaccard", "text", True, formulas.jaccard),
        Metric("roc_auc", "score", True, formulas.roc_auc),
        Metric("mean_roc_auc", "score", True, formulas.roc_auc, columns="mean"),
        Metric("normalized_gini", "score", True, formulas.normalized_gini, lowest=-1.0),
        Metric("log_loss", "probability", False, formulas.log_loss, highest=_INF),
        Metric(
            "multiclass_log_loss", "probability", False, formulas.log_loss, highest=_INF, columns="classes"
        ),
        Metric("pearson", "number", True, formulas.pearson, lowest=-1.0),
        Metric("spearman", "number", True, formulas.spearman, lowest=-1.0),
        Metric("mean_spearman", "number", True, formulas.spearman, lowest=-1.0, columns="mean"),
        Metric("rmse", "number", False, formulas.rmse, highest=_INF),
        Metric("mcrmse", "number", False, formulas.rmse, highest=_INF, columns="mean"),
        Metric("mse", "number", False, formulas.mse, highest=_INF),
        Metric("mae", "number", False, formulas.mae, highest=_INF),
        Metric("mean_mae", "number", False, formulas.mae, highest=_INF, columns="mean"),
        Metric("median_ae", "number", False, formulas.median_ae, highest=_INF),
        Metric("smape", "number", False, formulas.smape, highest=200.0),
        Metric("smape_fraction", "number", False, formulas.smape_fraction, highest=2.0),
        Metric("r2", "number", True, formulas.r2, lowest=-_INF),
        Metric("rmsle", "nonnegative", False, formulas.rmsle, highest=_INF),
        Metric("mean_rmsle", "nonnegative", False, formulas.rmsle, highest=_INF, columns="mean"),
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
    """The score of valid predictions: text arrays for labels and texts, float arrays for the others."""
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
