"""Which rows of X_test count as in the order of test.csv."""

from __future__ import annotations

import numpy as np
import pytest

from mappa_env.coach.rubric.artifacts import FOLLOWS
from mappa_env.probes.alignment import rescaled, rows_follow
from mappa_env.probes.csv_table import CsvTable, read_csv
from mappa_env.probes.plain import Table
from mappa_env.probes.rows import Rows

RNG = np.random.default_rng(3)


def csv_of(values: np.ndarray) -> CsvTable:
    return read_csv(("a\n" + "\n".join(map(str, values))).encode(), 10_000)


def table_of(values: np.ndarray) -> Table:
    rows = len(values)
    return Table(rows, 1, rows, ("a",), (True,), values.astype(float)[:, None], (), 0, 0)


def encoded(train: np.ndarray, test: np.ndarray) -> np.ndarray:
    """As scikit-learn's OrdinalEncoder with ``unknown_value=-1``."""
    codes = {value: at for at, value in enumerate(sorted(set(train)))}
    return np.array([codes.get(value, -1) for value in test])


@pytest.mark.parametrize(("cities", "rows"), [(300, 200), (15, 25), (700, 400), (40, 60)])
def test_texts_that_train_csv_lacks_may_get_one_code(cities: int, rows: int) -> None:
    names = np.array([f"city {at}" for at in range(2 * cities)])
    train, test = RNG.choice(names[:cities], 800), RNG.choice(names, rows)
    follow = rows_follow(table_of(encoded(train, test)), csv_of(test), csv_of(train), ["a"])
    assert follow is None or follow >= FOLLOWS
    moved = rows_follow(table_of(encoded(train, test[::-1])), csv_of(test), csv_of(train), ["a"])
    assert moved is None or moved < FOLLOWS


@pytest.mark.parametrize("part", [5, 3, 1])
@pytest.mark.parametrize("rows", [60, 500])
def test_numbers_out_of_order_are_found(part: int, rows: int) -> None:
    test = RNG.normal(size=rows).round(4)
    mine = test.copy()
    mine[: rows // part] = mine[: rows // part][::-1]
    assert (rows_follow(table_of(mine), csv_of(test), csv_of(test), ["a"]) or 0) < FOLLOWS
    clipped = np.clip(test, *np.quantile(test, [0.05, 0.95]))
    follow = rows_follow(table_of(clipped), csv_of(test), csv_of(test), ["a"])
    assert follow is not None
    assert follow >= FOLLOWS


@pytest.mark.parametrize(
    ("train_as", "test_as", "off"),
    [
        (lambda t: t, lambda t: t, False),
        (lambda t: (t - 5) / 3, lambda t: (t - 5) / 3, False),
        (lambda t: -(t**3), lambda t: -(t**3), False),
        (lambda t: (t - 5) / 3, lambda t: (t - 5.6) / 2.6, False),  # each table by itself
        (lambda t: (t - 5) / 3, lambda t: t, True),
        (lambda t: t, lambda t: t / 100, True),
        (lambda t: np.log(t + 20), lambda t: t, True),
        (lambda t: t, lambda t: -t, True),
    ],
)
def test_columns_on_two_scales_are_found(train_as, test_as, off: bool) -> None:  # type: ignore[no-untyped-def]
    train, test = (RNG.normal(5, 3, size=size).round(4) for size in (200, 80))
    tables = table_of(train_as(train)), table_of(test_as(test))
    rows = Rows(["a"], np.arange(200), np.arange(200), in_place=True)
    assert rescaled(*tables, csv_of(train), csv_of(test), rows) == (["a"] if off else [])
    assert rescaled(*tables, csv_of(train), csv_of(test), rows._replace(names=[])) is None
