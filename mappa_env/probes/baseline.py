"""What the tables that a model was given allow: predictions of two models that the host fits to them.

A forest, and one that sees what a forest of full depth does not: few columns that are noisy or turned, as of
a projection.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mappa_env.one_fit import ONE_FIT
from mappa_env.probes.association import MANY_VALUES, Column, missing
from mappa_env.probes.columns import MOST_TARGETS
from mappa_env.probes.plain import Table

TREES = 20
"""Of extremely randomised trees, which fit in half the time of a random forest and predict as well here."""
NEIGHBOURS, FOLDS = 15, 5
CHANCE = 2.5
"""Times the reciprocal root of the number of rows: a correlation that hardly occurs by chance."""
MAX_ROWS = 2000
"""Training rows that count: a sample of all that were exported."""
MAX_TEST_ROWS = 2000
MAX_CLASSES = 50
_CELLS = 2**18
"""Of larger tables only the most telling columns count: a forest on all of them takes seconds."""
_LARGEST = 1e150
"""Labels whose squares overflow are left out."""


class Allowed(NamedTuple):
    """``predictions``: (rows,) for the first test rows, or (rows, columns) for several columns of labels.

    ``shares``: (rows, classes) probabilities; None for numbers. ``classes``: texts, also of numbers with few
    values. ``smooth``: of the other model.
    ``learns``: the rank correlation of its predictions for rows that it had not seen with their labels, less
    what chance gives.
    """

    predictions: NDArray[Any]
    shares: NDArray[Any] | None = None
    classes: Sequence[str] = ()
    smooth: Allowed | None = None
    learns: float = 0.0


def baseline(x: Table, y: Table, test: Table) -> Allowed | None:
    """What both predict for the first rows of ``test``; None if none can be fitted. Never raises.

    Labels of more than ``MAX_CLASSES`` classes or of hardly two rows per class are not handled, nor are more
    than ``MOST_TARGETS`` columns of labels; neither are values that are infinite as float32, in which trees
    compute. Several columns count as numbers: of two labels, the second by name is 1, and the first 0.
    """
    if not x.names or x.names != test.names or not (all(x.numeric) and all(test.numeric)):
        return None
    rows = _sample(min(x.kept, y.kept))
    found = y.column(0)[rows] if len(y.names) == 1 else _several(y, rows)
    if found is None:
        return None
    features, labels, given = _single(x.numbers[rows]), found, _single(test.numbers[:MAX_TEST_ROWS])
    usable = _usable(labels) if labels.ndim == 1 else _usable(labels).all(axis=1)
    known = np.isfinite(features).all(axis=1) & usable
    features, labels = features[known], labels[known]
    if not len(labels) or not len(given) or not np.isfinite(given).all():
        return None
    from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor

    settings: dict[str, Any] = {"n_estimators": TREES, "random_state": 0, "n_jobs": 1}
    if labels.ndim > 1 or (labels.dtype.kind == "f" and len(np.unique(labels)) > MANY_VALUES):
        values = labels.reshape(len(labels), -1)
        features, given = _narrowed(features, values, given)
        with ONE_FIT, np.errstate(all="ignore"):  # what is too large to compute with teaches nothing
            found = ExtraTreesRegressor(**settings).fit(features, labels).predict(given)
            other = _smooth(features, values, given).reshape(found.shape)
            return Allowed(found, smooth=Allowed(other, learns=_learns(features, values)))
    names = np.array([_name(label) for label in labels])
    if len(np.unique(names)) > min(MAX_CLASSES, max(2, len(names) // 2)):
        return None
    each = (names[:, None] == np.unique(names)).astype(float)
    features, given = _narrowed(features, each, given)
    with ONE_FIT, np.errstate(all="ignore"):
        forest = ExtraTreesClassifier(**settings).fit(features, names)
        classes, shares = forest.classes_, forest.predict_proba(given)
        other, learns = _smooth(features, each, given).clip(1e-3), _learns(features, each)
    other /= other.sum(axis=1, keepdims=True)
    smooth = Allowed(classes[other.argmax(axis=1)], other, classes.tolist(), learns=learns)
    return Allowed(classes[shares.argmax(axis=1)], shares, classes.tolist(), smooth)


def _several(y: Table, rows: NDArray[np.intp]) -> NDArray[np.float64] | None:
    """(rows, columns) of numbers; None if a column of texts has not two labels, or there are too many."""
    if not y.names or len(y.names) > MOST_TARGETS:
        return None
    columns = []
    for at, numeric in enumerate(y.numeric):
        column = y.column(at)[rows]
        if not numeric:
            labels = sorted(set(column.tolist()) - {None})
            if len(labels) != 2:
                return None
            column = np.where(missing(column), np.nan, column == labels[1]).astype(float)
        columns.append(column)
    return np.column_stack(columns)


def _sample(rows: int) -> NDArray[np.intp]:
    """Which of ``rows`` rows count, in their order: the same ones whenever there are as many."""
    if rows <= MAX_ROWS:
        return np.arange(rows)
    return np.sort(np.random.default_rng(rows).choice(rows, MAX_ROWS, replace=False))


def _narrowed(
    features: NDArray[Any], values: NDArray[Any], given: NDArray[Any]
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Both tables with the columns that go together with one of ``values`` most, if they exceed ``_CELLS``.

    ``values``: (rows, columns). Columns of one value, such as padding, come last.
    """
    if features.size <= _CELLS:
        return features, given
    centred, wanted = features - features.mean(axis=0, dtype=float), values - values.mean(axis=0)
    spread = np.sqrt((centred**2).sum(axis=0))
    together = np.abs(centred.T @ wanted).max(axis=1) / np.where(spread > 0, spread, np.inf)
    best = np.sort(np.argsort(-together, kind="stable")[: max(1, _CELLS // len(features))])
    return features[:, best], given[:, best]


def _smooth(features: NDArray[Any], values: NDArray[Any], given: NDArray[Any]) -> NDArray[Any]:
    """The mean of what a linear model and the nearest rows say of ``values``: (rows, columns)."""
    from sklearn.linear_model import Ridge
    from sklearn.neighbors import KNeighborsRegressor
    from sklearn.preprocessing import StandardScaler

    scaler = StandardScaler().fit(features.astype(float))
    known, asked = scaler.transform(features.astype(float)), scaler.transform(given.astype(float))
    models = (Ridge(), KNeighborsRegressor(min(NEIGHBOURS, len(known)), n_jobs=1))
    said = [model.fit(known, values).predict(asked).reshape(len(given), -1) for model in models]
    found: NDArray[Any] = np.mean(said, axis=0)
    return found


def _learns(features: NDArray[Any], values: NDArray[Any]) -> float:
    """See ``Allowed.learns``. ``values``: (rows, columns), of which the one that is learned best counts."""
    rows = np.arange(len(values))
    if len(rows) < FOLDS**2:
        return 0.0
    found = np.empty(values.shape)
    for fold in range(FOLDS):
        held = rows % FOLDS == fold
        found[held] = _smooth(features[~held], values[~held], features[held])
    scores: list[float] = [_correlation(one, other) for one, other in zip(found.T, values.T, strict=True)]
    return float(max(scores) - CHANCE / np.sqrt(len(rows)))


def _correlation(one: NDArray[Any], other: NDArray[Any]) -> float:
    from scipy.stats import rankdata

    ranks = [rankdata(one), rankdata(other)]
    if any((each == each[0]).all() for each in ranks):
        return 0.0
    return float(np.corrcoef(*ranks)[0, 1])


def _single(values: NDArray[np.float64]) -> NDArray[np.float32]:
    with np.errstate(over="ignore"):
        return values.astype(np.float32)


def _usable(labels: Column) -> NDArray[np.bool_]:
    """Which labels are neither missing nor too large to be squared."""
    return np.abs(labels) < _LARGEST if labels.dtype.kind == "f" else ~missing(labels)


def _name(label: Any) -> str:
    return f"{label:.15g}" if isinstance(label, float) else str(label)
