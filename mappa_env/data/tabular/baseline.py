"""What a task's scores are measured against: the best constant submission and a random forest."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mappa_env.grading.metrics import canonical, evaluate, higher_is_better, metric_named, multiclass_log_loss

MAX_ROWS = 5000
"""Training rows that the reference model gets to see."""
READ_ROWS = 50_000
MAX_LEVELS = 30
"""Text columns with more levels than this are left out of the reference model."""


class Truth(Mapping[str, Any]):
    """Hidden truth: plain values, and others that are computed from it when first asked for, then kept."""

    def __init__(self, values: Mapping[str, Any], later: Mapping[str, Callable[[Truth], Any]]) -> None:
        self._values, self._later = dict(values), dict(later)

    def __getitem__(self, key: str) -> Any:
        if key not in self._values:
            self._values[key] = self._later[key](self)
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter({**self._later, **self._values})

    def __len__(self) -> int:
        return len({**self._later, **self._values})

    def __repr__(self) -> str:
        return f"Truth({', '.join(self)})"


def columns_of(metric: str, rows: Sequence[Sequence[str]]) -> NDArray[Any]:
    """(rows, targets) of texts as the array that ``metric`` compares. Raises ValueError for bad numbers."""
    if metric_named(metric).takes == "label":
        return np.array([[canonical(cell) for cell in row] for row in rows], dtype=object)
    try:
        return np.array([[float(cell) for cell in row] for row in rows])
    except ValueError:
        if metric_named(metric).takes not in ("score", "probability"):
            raise
    classes = sorted({cell for row in rows for cell in row})  # two classes that are named, not numbered
    if len(classes) != 2:
        raise ValueError(f"{metric} needs numbers or two classes, found {classes[:5]}")
    return np.array([[float(cell == classes[1]) for cell in row] for row in rows])


def score_of(metric: str, truth: NDArray[Any], pred: NDArray[Any]) -> float:
    """The score of (rows, targets) arrays: the mean over targets; several log-loss columns are classes."""
    if metric == "log_loss" and truth.shape[1] > 1:
        return multiclass_log_loss(truth, pred)
    return float(np.mean([evaluate(metric, truth[:, j], pred[:, j]) for j in range(truth.shape[1])]))


def constant_score(metric: str, train: NDArray[Any], truth: NDArray[Any]) -> float:
    """The best score that one value per target, chosen from the training rows, gets on the test rows."""
    per_target = []
    for j in range(train.shape[1]):
        column = train[:, j]
        if metric_named(metric).takes == "label":
            candidates = list(dict.fromkeys(column))
            best = max(candidates, key=lambda value: _score(metric, column, value))
        else:
            with np.errstate(invalid="ignore"):
                middle = (
                    np.mean(column),
                    np.median(column),
                    np.expm1(np.mean(np.log1p(np.maximum(column, 0)))),
                )
            pick = max if higher_is_better(metric) else min
            best = pick((float(v) for v in middle), key=lambda value: _score(metric, column, value))
        per_target.append(best)
    return score_of(metric, truth, np.array([per_target] * len(truth), dtype=truth.dtype))


def _score(metric: str, column: NDArray[Any], value: Any) -> float:
    return evaluate(metric, column, np.full(len(column), value, dtype=column.dtype))


def reference_score(
    metric: str,
    train: bytes | Path,
    test: bytes | Path,
    targets: Sequence[str],
    ids: str,
    truth: NDArray[Any],
) -> float:
    """The score of a random forest on the given tables (row order of ``truth`` = that of ``test``).

    Numbers with the median for what is missing, text one-hot. About 0.1 s for 200 rows.
    """
    import pandas as pd

    a = pd.read_csv(_open(train), dtype=dict.fromkeys(targets, str), nrows=READ_ROWS)
    b = pd.read_csv(_open(test))
    if not set(targets) <= set(a.columns) or len(b) != len(truth):
        return metric_named(metric).ideal  # nothing to learn from: only the truth itself is a yardstick
    a = a.dropna(subset=list(targets))
    if len(a) > MAX_ROWS:
        a = a.sample(MAX_ROWS, random_state=0)
    shared = [name for name in b.columns if name in a.columns and name != ids and name not in targets]
    shared = [n for n in shared if pd.api.types.is_numeric_dtype(a[n]) or a[n].nunique() <= MAX_LEVELS]
    if not shared:
        return constant_score(metric, columns_of(metric, a[list(targets)].values.tolist()), truth)
    x = pd.get_dummies(a[shared]).astype(float)
    z = pd.get_dummies(b[shared]).reindex(columns=x.columns, fill_value=0).astype(float)
    middle = x.median().fillna(0.0)
    x, z = x.fillna(middle), z.fillna(middle)
    columns = [_forest(metric, x, columns_of(metric, a[[name]].values.tolist())[:, 0], z) for name in targets]
    return score_of(metric, truth, np.column_stack(columns))


def _open(content: bytes | Path) -> Any:
    return io.BytesIO(content) if isinstance(content, bytes) else content


def _forest(metric: str, x: Any, y: NDArray[Any], z: Any) -> NDArray[Any]:
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

    takes = metric_named(metric).takes
    if takes in ("number", "nonnegative"):
        forest = RandomForestRegressor(n_estimators=40, random_state=0, n_jobs=1).fit(x, y)
        return np.asarray(forest.predict(z), dtype=float)
    forest = RandomForestClassifier(n_estimators=40, random_state=0, n_jobs=1).fit(x, y.astype(str))
    if takes == "label":
        return np.asarray(forest.predict(z), dtype=object)
    # Probabilities kept away from 0 and 1, which a small forest reaches and log loss punishes without bound.
    return np.asarray(np.clip(forest.predict_proba(z)[:, -1], 0.02, 0.98))
