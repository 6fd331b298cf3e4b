"""Sources of rows: mixtures of the rows of real tables from scikit-learn, and generators of untidy tables."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mappa_env.data.tabular.mixing import bins, mixed, rescaled
from mappa_env.data.tabular.names import TaskType
from mappa_env.data.tabular.seeding import seed_of

Floats = NDArray[np.float64]
Rng = np.random.Generator


class Draw(NamedTuple):
    """Rows in random order: numbers, the target (class numbers from 0, or values) and text columns.

    ``categories``: column -> number of levels, for columns whose values are level numbers. ``useless``:
    columns without any relation to the target.
    """

    x: Floats
    y: Floats
    categories: dict[int, int]
    useless: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Source:
    """A source of tasks. ``counts``: (train, eval) tasks, including weak ones."""

    name: str
    task_type: TaskType
    real: bool
    metrics: tuple[str, ...]
    counts: tuple[int, int]
    about: str
    draw: Callable[[str, str, Rng], Draw]


# -- real tables ------------------------------------------------------------------------------------------


@functools.cache
def _table(name: str) -> tuple[Floats, Floats]:
    import sklearn.datasets

    bunch: Any = getattr(sklearn.datasets, f"load_{name}")(
        **({"scaled": False} if name == "diabetes" else {})
    )
    return np.asarray(bunch.data, dtype=float), np.asarray(bunch.target, dtype=float)


def _rows(name: str, split: str) -> tuple[Floats, Floats]:
    """The real rows of one split, from which a task's rows are mixed.

    Tables of both splits have three fifths for training; validation draws from the training rows.
    """
    x, y = _table(name)
    if name in ("iris", "wine"):
        return x, y
    order = np.random.default_rng(seed_of("rows", name)).permutation(len(y))
    cut = len(y) * 3 // 5
    part = order[cut:] if split == "eval" else order[:cut]
    return x[part], y[part]


def _columns(x: Floats, k: int, rng: Rng) -> Floats:
    varied = np.flatnonzero(x.std(axis=0) > 0)
    return rescaled(x[:, rng.choice(varied, size=min(k, len(varied)), replace=False)], rng)


def _classes(name: str, low: int, high: int) -> Callable[[str, str, Rng], Draw]:
    def draw(split: str, metric: str, rng: Rng) -> Draw:
        x, y = _rows(name, split)
        mix, y = mixed(x, y, rng)
        return Draw(_columns(mix, int(rng.integers(low, high + 1)), rng), y, {})

    return draw


def _digits(split: str, metric: str, rng: Rng) -> Draw:
    """Two to four of the ten digits by a few pixels near the middle of the image."""
    x, y = _rows("digits", split)
    n = 2 if metric in ("f1", "roc_auc") else int(rng.integers(3, 5))
    chosen = rng.choice(10, size=n, replace=False)
    keep = np.isin(y, chosen)
    mix, y = mixed(x[keep], y[keep], rng)
    y = np.searchsorted(np.sort(chosen), y).astype(float)
    inner = [8 * i + j for i in range(1, 7) for j in range(2, 6)]
    return Draw(_columns(mix[:, inner], int(rng.integers(6, 9)), rng), y, {})


def _values(name: str, targets: tuple[int, ...] = (), twins: tuple[int, ...] = ()) -> Any:
    """A real regression on the table's target or on one of its columns, which ``twins`` nearly repeat."""

    def draw(split: str, metric: str, rng: Rng) -> Draw:
        x, y = _rows(name, split)
        k = int(rng.integers(4, 9))
        if targets:
            target = int(rng.choice(targets))
            y = x[:, target]
            x = np.delete(x, [target, *twins], axis=1)
        mix, _ = mixed(np.column_stack([x, y]), bins(y), rng)
        x, y = mix[:, :-1], mix[:, -1]
        if name == "diabetes":  # body mass, blood pressure and one serum value carry most of it
            k = max(k, 6)
        return Draw(_columns(x, k, rng), y, {})

    return draw


# -- generated tables -------------------------------------------------------------------------------------

_ROWS = 280


def _features(rng: Rng) -> tuple[Floats, Floats, dict[int, int], tuple[int, ...]]:
    """Untidy columns on different scales, their standardised effects, categories and useless columns."""
    n_num, n_cat = int(rng.integers(3, 6)), int(rng.integers(1, 3))
    columns, effects, categories = [], [], {}
    for _ in range(n_num):
        z = rng.standard_normal(_ROWS)
        kind = int(rng.integers(3))
        scale, shift = 10.0 ** int(rng.integers(0, 4)), float(rng.integers(0, 50))
        raw = (z * scale + shift, np.exp(0.7 * z) * scale, np.round(5 * z + 20))[kind]
        columns.append(raw)
        effects.append(z)
    for _ in range(n_cat):
        levels = int(rng.integers(2, 5))
        codes = rng.integers(levels, size=_ROWS)
        categories[len(columns)] = levels
        columns.append(codes.astype(float))
        effects.append(rng.permutation(np.linspace(-1.2, 1.2, levels))[codes])
    useless = (len(columns),) if len(columns) < 7 and rng.random() < 0.5 else ()
    if useless:
        columns.append(np.full(_ROWS, 3.0) if rng.random() < 0.3 else rng.standard_normal(_ROWS))
    return np.column_stack(columns), np.column_stack(effects), categories, useless


def _signal(effects: Floats, rng: Rng) -> Floats:
    """A smooth part, an interaction and a threshold, standardised, with a little noise."""
    weights = rng.choice((-1.0, 1.0), size=effects.shape[1]) * rng.uniform(0.4, 1.4, size=effects.shape[1])
    a, b = rng.choice(effects.shape[1], size=2, replace=False)
    signal = effects @ weights + 0.5 * effects[:, a] * effects[:, b] + 0.8 * (effects[:, a] > 0.3)
    signal = (signal - signal.mean()) / signal.std()
    noise = rng.uniform(0.1, 0.4)
    return np.asarray((signal + noise * rng.standard_normal(len(signal))) / np.hypot(1.0, noise))


def _churn(split: str, metric: str, rng: Rng) -> Draw:
    """Two classes; the positive one is rare (15 to 35 % of the rows)."""
    x, effects, categories, useless = _features(rng)
    signal = _signal(effects, rng)
    return Draw(
        x, (signal > np.quantile(signal, 1 - rng.uniform(0.15, 0.35))).astype(float), categories, useless
    )


def _grades(split: str, metric: str, rng: Rng) -> Draw:
    """Three to five ordered classes of unequal size."""
    x, effects, categories, useless = _features(rng)
    signal = _signal(effects, rng)
    cuts = np.cumsum(rng.dirichlet(np.full(int(rng.integers(3, 6)), 6.0)))[:-1]
    return Draw(x, np.searchsorted(np.quantile(signal, cuts), signal).astype(float), categories, useless)


def _prices(split: str, metric: str, rng: Rng) -> Draw:
    """Positive values with a long right tail."""
    x, effects, categories, useless = _features(rng)
    return Draw(x, np.exp(0.8 * _signal(effects, rng) + rng.uniform(2.0, 6.0)), categories, useless)


def _sensor(split: str, metric: str, rng: Rng) -> Draw:
    """Readings on an arbitrary scale."""
    x, effects, categories, useless = _features(rng)
    return Draw(x, _signal(effects, rng) * rng.uniform(1, 40) + rng.uniform(50, 200), categories, useless)


_CLS: TaskType = "classification"
_REG: TaskType = "regression"
SOURCES: dict[str, Source] = {
    source.name: source
    for source in (
        Source(
            "cancer",
            _CLS,
            True,
            ("accuracy", "f1", "roc_auc"),
            (46, 17),
            "measurements of cell nuclei, by diagnosis",
            _classes("breast_cancer", 4, 8),
        ),
        Source(
            "iris",
            _CLS,
            True,
            ("accuracy", "macro_f1"),
            (27, 0),
            "measurements of flowers, by species",
            _classes("iris", 3, 4),
        ),
        Source(
            "wine",
            _CLS,
            True,
            ("accuracy", "macro_f1"),
            (0, 23),
            "chemical analyses of wines, by grower",
            _classes("wine", 4, 8),
        ),
        Source(
            "digits",
            _CLS,
            True,
            ("accuracy", "f1", "macro_f1", "roc_auc"),
            (50, 18),
            "pixels of handwritten digits, by digit",
            _digits,
        ),
        Source(
            "churn",
            _CLS,
            False,
            ("f1", "roc_auc", "log_loss"),
            (39, 15),
            "a generated table with a rare positive class",
            _churn,
        ),
        Source(
            "grades",
            _CLS,
            False,
            ("accuracy", "macro_f1", "qwk"),
            (39, 14),
            "a generated table with ordered classes",
            _grades,
        ),
        Source(
            "diabetes",
            _REG,
            True,
            ("rmse", "mae"),
            (40, 16),
            "patients' measurements, with the progress of their disease a year on",
            _values("diabetes"),
        ),
        Source(
            "nuclei",
            _REG,
            True,
            ("rmse", "mae", "rmsle"),
            (36, 14),
            "measurements of cell nuclei, one of which is asked for",
            _values("breast_cancer", (3, 13, 23), (0, 2, 3, 10, 12, 13, 20, 22, 23)),
        ),
        Source(
            "petals",
            _REG,
            True,
            ("rmse", "mae"),
            (19, 0),
            "measurements of flowers, one of which is asked for",
            _values("iris", (2, 3)),
        ),
        Source(
            "cellar",
            _REG,
            True,
            ("rmse", "mae"),
            (0, 22),
            "chemical analyses of wines, one value of which is asked for",
            _values("wine", (5, 6, 9, 12)),
        ),
        Source(
            "prices",
            _REG,
            False,
            ("rmsle", "mae", "smape"),
            (36, 13),
            "a generated table with a skewed target",
            _prices,
        ),
        Source(
            "sensor",
            _REG,
            False,
            ("rmse", "r2", "median_ae"),
            (36, 13),
            "a generated table of readings",
            _sensor,
        ),
    )
}
"""``wine`` and ``cellar`` (one real table) are in eval only, ``iris`` and ``petals`` in train only."""
