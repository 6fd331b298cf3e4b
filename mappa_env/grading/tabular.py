"""Submissions as arrays, and the score of one array against another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mappa_env.grading.formulas import multiclass_log_loss
from mappa_env.grading.metrics import evaluate, metric_named
from mappa_env.grading.spelling import canonical, number


def columns_of(metric: str, rows: Sequence[Sequence[str]]) -> NDArray[Any]:
    """Convert (rows, targets) texts to the array that ``metric`` compares. Raises ValueError."""
    takes = metric_named(metric).takes
    if takes == "label":
        return np.array([[canonical(cell) for cell in row] for row in rows], dtype=object)
    if takes == "ranking":
        return np.array([[listed(cell) for cell in row] for row in rows], dtype=object)
    if takes == "text":
        return np.array([list(row) for row in rows], dtype=object)
    try:
        return np.array([[number(cell) for cell in row] for row in rows])
    except ValueError:
        if takes not in ("score", "probability"):
            raise
    return np.array([_two_classes(metric, column) for column in zip(*rows, strict=True)]).T


def _two_classes(metric: str, column: Sequence[str]) -> list[float]:
    """A target of numbers, or of two names: the second by name is 1. Raises ValueError."""
    try:
        return [number(cell) for cell in column]
    except ValueError:
        classes = sorted(set(map(canonical, column)))
    if len(classes) != 2:
        raise ValueError(f"{metric} needs numbers or two classes, found {classes[:5]}")
    return [float(canonical(cell) == classes[1]) for cell in column]


def listed(cell: str) -> str:
    """The labels of a ranked list, separated by single spaces."""
    return " ".join(canonical(label) for label in cell.split())


def score_of(metric: str, truth: NDArray[Any], pred: NDArray[Any]) -> float:
    """The score of (rows, targets) arrays: the mean over targets, unless each column is a class."""
    if metric_named(metric).columns == "classes":
        return multiclass_log_loss(truth, pred)
    return float(np.mean([evaluate(metric, truth[:, j], pred[:, j]) for j in range(truth.shape[1])]))
