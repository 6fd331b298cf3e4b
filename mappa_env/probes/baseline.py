"""What the tables that a model was given allow: predictions of a forest that the host fits to them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mappa_env.one_fit import ONE_FIT
from mappa_env.probes.association import MANY_VALUES, Column, missing
from mappa_env.probes.plain import Table

TREES = 20
"""Of extremely randomised trees, which fit in half the time of a random forest and predict as well here."""
MAX_ROWS = 2000
"""Training rows that count: the first ones."""
MAX_TEST_ROWS = 2000
MAX_CLASSES = 50
_CELLS = 2**18
"""Larger tables are left out: a forest on them takes seconds."""
_LARGEST = 1e150
"""Labels whose squares overflow are left out."""


class Allowed(NamedTuple):
    """``predictions``: (rows,) for the first test rows. ``shares``: (rows, classes) probabilities; None for
    numbers. ``classes``: texts, also of numbers with few values."""

    predictions: NDArray[Any]
    shares: NDArray[Any] | None = None
    classes: Sequence[str] = ()


def baseline(x: Table, y: Table, test: Table) -> Allowed | None:
    """What a forest predicts for the first rows of ``test``; None if none can be fitted. Never raises.

    Labels of several columns, of more than ``MAX_CLASSES`` classes or of hardly two rows per class are not
    handled; neither are values that are infinite as float32, in which trees compute.
    """
    if (
        not x.names
        or x.names != test.names
        or not (all(x.numeric) and all(test.numeric))
        or len(y.names) != 1
    ):
        return None
    rows = min(x.kept, y.kept, MAX_ROWS)
    features, labels, given = (
        _single(x.numbers[:rows]),
        y.column(0)[:rows],
        _single(test.numbers[:MAX_TEST_ROWS]),
    )
    known = np.isfinite(features).all(axis=1) & _usable(labels)
    features, labels = features[known], labels[known]
    if not len(labels) or not len(given) or not np.isfinite(given).all() or features.size > _CELLS:
        return None
    from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor

    settings: dict[str, Any] = {"n_estimators": TREES, "random_state": 0, "n_jobs": 1}
    if labels.dtype.kind == "f" and len(np.unique(labels)) > MANY_VALUES:
        with ONE_FIT:
            return Allowed(ExtraTreesRegressor(**settings).fit(features, labels).predict(given))
    names = np.array([_name(label) for label in labels])
    if len(np.unique(names)) > min(MAX_CLASSES, max(2, len(names) // 2)):
        return None
    with ONE_FIT:
        forest = ExtraTreesClassifier(**settings).fit(features, names)
        shares = forest.predict_proba(given)
    return Allowed(forest.classes_[shares.argmax(axis=1)], shares, forest.classes_.tolist())


def _single(values: NDArray[np.float64]) -> NDArray[np.float32]:
    with np.errstate(over="ignore"):
        return values.astype(np.float32)


def _usable(labels: Column) -> NDArray[np.bool_]:
    """Which labels are neither missing nor too large to be squared."""
    return np.abs(labels) < _LARGEST if labels.dtype.kind == "f" else ~missing(labels)


def _name(label: Any) -> str:
    return f"{label:.15g}" if isinstance(label, float) else str(label)
