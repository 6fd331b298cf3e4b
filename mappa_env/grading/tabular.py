"""Submissions as arrays, and the score of one array against another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mappa_env.grading.metrics import canonical, evaluate, metric_named, multiclass_log_loss


def columns_of(metric: str, rows: Sequence[Sequence[str]]) -> NDArray[Any]:
    """Convert (rows, targets) texts to the array that ``metric`` compares. Raises ValueError."""
    if metric_named(metric).takes == "label":
        return np.array([[canonical(cell) for cell in row] for row in rows], dtype=object)
    try:
        return np.array([[float(cell) for cell in row] for row in rows])
    except ValueError:
        if metric_named(metric).takes not in ("score", "probability"):
            raise
    classes = sorted({cell for row in rows for cell in row})  # two classes with names, not numbers
    if len(classes) != 2:
        raise ValueError(f"{metric} needs numbers or two classes, found {classes[:5]}")
    return np.array([[float(cell == classes[1]) for cell in row] for row in rows])


def score_of(metric: str, truth: NDArray[Any], pred: NDArray[Any]) -> float:
    """The score of (rows, targets) arrays: the mean over targets. Several log-loss columns are classes."""
    if metric == "log_loss" and truth.shape[1] > 1:
        return multiclass_log_loss(truth, pred)
    return float(np.mean([evaluate(metric, truth[:, j], pred[:, j]) for j in range(truth.shape[1])]))
