"""The baselines of a task's skill: the best constant submission and a random forest."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mappa_env.data.tabular.cells import filled, opened, targets_in
from mappa_env.grading.formulas import LISTED
from mappa_env.grading.metrics import evaluate, higher_is_better, metric_named
from mappa_env.grading.tabular import columns_of, score_of
from mappa_env.one_fit import ONE_FIT

MAX_ROWS = 5000
"""Maximum number of training rows of the reference model."""
READ_ROWS = 50_000
"""Maximum number of rows that are read of the training table."""
CHUNK = 50_000
"""Rows of the test table that are read and predicted at a time."""
MAX_LEVELS = 30
"""The reference model ignores text columns with more levels than this."""
MAX_COPIED = 2000
"""Maximum number of training rows from which the column to copy is chosen."""
MANY = 10
"""From more targets than this, one forest predicts them all."""
MANY_CELLS = 600_000
"""Target cells on which that forest is fitted."""
_FLOAT32 = 1e38
"""What scikit-learn's forests take at most."""


class Truth(Mapping[str, Any]):
    """Hidden truth: plain values, and lazy values that are computed on first access and cached.

    Thread-safe: each lazy value is computed once, however many episodes share the task.
    """

    def __init__(self, values: Mapping[str, Any], later: Mapping[str, Callable[[Truth], Any]]) -> None:
        self._values, self._later = dict(values), dict(later)
        self._lock = threading.RLock()  # a lazy value may need another one

    def __getitem__(self, key: str) -> Any:
        if key not in self._values:
            with self._lock:
                if key not in self._values:
                    self._values[key] = self._later[key](self)
        return self._values[key]

    def __reduce__(self) -> tuple[Any, ...]:
        return Truth, (self._values, self._later)

    def __iter__(self) -> Iterator[str]:
        return iter({**self._later, **self._values})

    def __len__(self) -> int:
        return len({**self._later, **self._values})

    def __repr__(self) -> str:
        return f"Truth({', '.join(self)})"


def constant_score(metric: str, train: NDArray[Any], truth: NDArray[Any]) -> float:
    """The test score of the best constant per target, chosen from the training rows."""
    per_target = []
    for j in range(train.shape[1]):
        column = train[:, j]
        takes = metric_named(metric).takes
        if takes == "label":
            candidates = list(dict.fromkeys(column))
            best = max(candidates, key=lambda value: _score(metric, column, value))
        elif takes == "ranking":  # the most frequent labels
            best = " ".join(label for label, _ in Counter(column).most_common(LISTED))
        elif takes == "text":  # no text has words in common with most others
            best = ""
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

    Missing numbers become the median; text is one-hot encoded. About 0.1 s for 200 rows.
    """
    import pandas as pd

    a = pd.read_csv(opened(train), nrows=READ_ROWS)
    header = pd.read_csv(opened(test), nrows=0).columns
    if not set(targets) <= set(a.columns):
        return metric_named(metric).ideal  # no usable features: compare with the truth itself
    y = targets_in(train, targets, rows=READ_ROWS)
    a[list(targets)] = y
    a = a[filled(y)]
    if len(a) > MAX_ROWS:
        a = a.sample(MAX_ROWS, random_state=0)
    shared = [name for name in header if name in a.columns and name != ids and name not in targets]
    if metric_named(metric).takes == "text":
        return _copied(metric, a[:MAX_COPIED], test, targets, shared, truth)
    shared = [n for n in shared if pd.api.types.is_numeric_dtype(a[n]) or a[n].nunique() <= MAX_LEVELS]
    if not shared:
        return constant_score(metric, columns_of(metric, a[list(targets)].values.tolist()), truth)
    x = _finite(pd.get_dummies(a[shared]).astype(float))
    middle = x.median().fillna(0.0)
    x = x.fillna(middle)
    predict = _fitted(metric, x, columns_of(metric, a[list(targets)].values.tolist()))
    parts = []
    for b in pd.read_csv(opened(test), usecols=shared, chunksize=CHUNK):
        z = pd.get_dummies(b[shared]).reindex(columns=x.columns, fill_value=0)
        with ONE_FIT:
            parts.append(predict(_finite(z.astype(float)).fillna(middle)))
    predictions = np.concatenate(parts)
    if len(predictions) != len(truth):
        return metric_named(metric).ideal
    return score_of(metric, truth, predictions)


def _finite(x: Any) -> Any:
    """Numbers that a forest cannot read count as missing."""
    return x.where(x.abs() <= _FLOAT32)


def _copied(
    metric: str,
    train: Any,
    test: bytes | Path,
    targets: Sequence[str],
    shared: Sequence[str],
    truth: NDArray[Any],
) -> float:
    """The score of a copy of the column that resembles the target most in the training rows."""
    import pandas as pd

    known = columns_of(metric, train[list(targets)].values.tolist())
    texts = {name: train[name].fillna("").astype(str).to_numpy(dtype=object) for name in shared}
    if not texts:
        return metric_named(metric).ideal
    best = [
        max(texts, key=lambda name: evaluate(metric, known[:, j], texts[name])) for j in range(len(targets))
    ]
    table = pd.read_csv(opened(test), usecols=list(dict.fromkeys(best)), dtype=str, keep_default_na=False)
    return score_of(metric, truth, table[best].to_numpy(dtype=object))


def _fitted(metric: str, x: Any, y: NDArray[Any]) -> Callable[[Any], NDArray[Any]]:
    """Fit forests to (rows, targets) ``y``; returns the function from features to predictions."""
    with ONE_FIT:
        if y.shape[1] > MANY:
            return _forest_of_all(metric, x, y)
        fitted = [_forest(metric, x, y[:, j]) for j in range(y.shape[1])]
    return lambda z: np.column_stack([predict(z) for predict in fitted])


def _forest_of_all(metric: str, x: Any, y: NDArray[Any]) -> Callable[[Any], NDArray[Any]]:
    """One small forest for many numeric targets: one for each would take hours."""
    from sklearn.ensemble import RandomForestRegressor

    rows = min(len(x), max(MANY_CELLS // y.shape[1], 1))
    logs = metric_named(metric).takes == "nonnegative"
    goals = np.log1p(np.maximum(y[:rows], 0.0)) if logs else y[:rows].astype(float)
    forest = RandomForestRegressor(n_estimators=10, max_features="sqrt", random_state=0, n_jobs=1)
    forest.fit(x[:rows], goals)
    return lambda z: np.asarray(np.expm1(forest.predict(z)) if logs else forest.predict(z), dtype=float)


def _forest(metric: str, x: Any, y: NDArray[Any]) -> Callable[[Any], NDArray[Any]]:
    """Fit a forest; returns the function from features to predictions."""
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

    takes = metric_named(metric).takes
    if takes == "number":
        regressor = RandomForestRegressor(n_estimators=40, random_state=0, n_jobs=1).fit(x, y)
        return lambda z: np.asarray(regressor.predict(z), dtype=float)
    if takes == "nonnegative":  # the metric compares logarithms: their mean is the best guess
        logs = np.log1p(np.maximum(y, 0.0))
        regressor = RandomForestRegressor(n_estimators=40, random_state=0, n_jobs=1).fit(x, logs)
        return lambda z: np.expm1(np.asarray(regressor.predict(z), dtype=float))
    forest = RandomForestClassifier(n_estimators=40, random_state=0, n_jobs=1).fit(x, y.astype(str))
    if takes == "label":
        return lambda z: np.asarray(forest.predict(z), dtype=object)
    if takes == "ranking":
        return lambda z: _ranked(forest.classes_, forest.predict_proba(z))
    # Clipped probabilities: a small forest predicts 0 and 1, where log loss is unbounded.
    return lambda z: np.asarray(np.clip(forest.predict_proba(z)[:, -1], 0.02, 0.98))


def _ranked(classes: NDArray[Any], shares: NDArray[Any]) -> NDArray[Any]:
    """The likeliest labels of each row, the likeliest first."""
    order = np.argsort(-shares, axis=1, kind="stable")[:, :LISTED]
    return np.array([" ".join(classes[row]) for row in order], dtype=object)
