"""What the host computes about a file is bounded, whatever an agent put into it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mappa_env.probes.association import association
from mappa_env.probes.checks import leaked
from mappa_env.probes.csv_table import CsvTable, read_csv
from mappa_env.probes.inside.exporter import MAX_COLUMNS
from mappa_env.probes.plain import Table
from mappa_env.probes.predictions import MAX_ROWS, array_in

ROWS = 20


def wide(cols: int, seed: int) -> Table:
    values = np.random.default_rng(seed).uniform(size=(ROWS, cols))
    names = tuple(f"c{at}" for at in range(cols))
    return Table(ROWS, cols, ROWS, names, (True,) * cols, values, (), 0, 0)


def seconds(call: Callable[[], Any]) -> float:
    """CPU time of the thread, which other programs do not change; the best of three."""
    times = []
    for _ in range(3):
        start = time.thread_time()
        call()
        times.append(time.thread_time() - start)
    return min(times)


def test_the_search_for_the_target_takes_time_in_proportion_to_the_columns() -> None:
    """Comparing all pairs, each looked up in turn, would take 64 times as long for 4 times as many."""
    small, large = ((wide(cols, 0), wide(cols, 1)) for cols in (250, 1000))
    assert seconds(lambda: leaked(*large, [], CsvTable())) < 12 * seconds(
        lambda: leaked(*small, [], CsvTable())
    )


def test_the_widest_tables_are_searched() -> None:
    x = wide(MAX_COLUMNS, 0)
    target = Table(ROWS, 1, ROWS, ("y",), (True,), x.numbers[:, -1:].copy(), (), 0, 0)
    assert leaked(x, target, [], CsvTable()) == [f"c{MAX_COLUMNS - 1}"]


@pytest.mark.parametrize(
    ("content", "rows"),
    [
        (b"a\n" + b"1\n" * 1000, 1000),
        (b"," * (MAX_COLUMNS - 1) + b"\n" + b"1" + b",1" * (MAX_COLUMNS - 1) + b"\n", 1),
        (b'"a\n,b",c\n' + b'"1,\n1",2\n' * MAX_COLUMNS, MAX_COLUMNS),
        (b"," * MAX_COLUMNS + b"\n", None),
        (b'"\n",' * MAX_COLUMNS + b"\n", None),
        (b"a\n" + b"1\n" * MAX_ROWS, None),
    ],
    ids=["tall", "wide", "quoted", "too wide", "too wide over many lines", "too tall"],
)
def test_predictions_of_impossible_size_are_no_table(content: bytes, rows: int | None) -> None:
    found = array_in(content)
    assert (None if found is None else found.rows) == rows


def contingency(a: np.ndarray, b: np.ndarray) -> float:
    """Cramer's V over all cells of the contingency table, less what chance adds to it (Bergsma)."""
    table = np.array([[np.mean((a == i) & (b == j)) for j in np.unique(b)] for i in np.unique(a)])
    expected = np.outer(table.sum(axis=1), table.sum(axis=0))
    chi2 = ((table - expected) ** 2 / expected).sum()
    rows, (r, k) = len(a) - 1, (size - 1 for size in table.shape)
    most = min(r - r**2 / rows, k - k**2 / rows)
    return float(np.sqrt(max(0, chi2 - r * k / rows) / most))


@pytest.mark.parametrize("seed", range(5))
def test_the_association_is_cramers_v(seed: int) -> None:
    rng = np.random.default_rng(seed)
    a = rng.integers(0, 4, 100).astype(float)
    b = np.where(rng.uniform(size=100) < 0.5, a, rng.integers(0, 7, 100)).astype(float)
    words = np.array([f"w{value:g}" for value in b], dtype=object)
    assert association(a, b) == pytest.approx(contingency(a, b), abs=1e-3)
    assert association(a, words) == pytest.approx(contingency(a, b), abs=1e-3)


def test_two_columns_of_many_texts_take_no_table_of_all_pairs() -> None:
    words = np.array([f"w{at}" for at in range(2000)], dtype=object)
    assert association(words, words[::-1]) is None  # each row has its own: nothing repeats
    codes = np.arange(2000.0) % 2
    assert association(words, codes) is None
    assert seconds(lambda: association(words, words[::-1])) < 0.05


TRAIN = read_csv(b"id,a,price\n" + b"1,0,low\n2,1,high\n" * 20, 2000)
NUMBERS = read_csv(b"id,a,price\n" + b"1,0,1\n2,1,2.5\n" * 20, 2000)


def named(name: str) -> Table:
    values = np.random.default_rng(0).uniform(size=(40, 1))
    return Table(40, 1, 40, (name,), (True,), values, (), 0, 0)


@pytest.mark.parametrize(
    ("name", "train", "leaks"),
    [
        ("price", TRAIN, True),
        ("price_low", TRAIN, True),
        ("price_1", NUMBERS, True),
        ("price_1.0", NUMBERS, True),
        ("price_2.5", NUMBERS, True),
        ("price_mean_by_bin", TRAIN, False),
        ("price_1", TRAIN, False),
        ("price_3", NUMBERS, False),
        ("prices", TRAIN, False),
    ],
)
def test_only_the_targets_own_and_one_hot_names_leak_it(name: str, train: CsvTable, leaks: bool) -> None:
    assert leaked(named(name), None, ["price"], train) == ([name] if leaks else [])


@pytest.mark.parametrize("text", [False, True])
def test_a_copy_of_the_labels_leaks_them_whatever_its_name(text: bool) -> None:
    values = np.arange(40.0) % 7
    values[3] = np.nan
    if text:
        cells = (tuple(None if np.isnan(value) else f"{value:g}" for value in values),)
        x = Table(40, 1, 40, ("z",), (False,), np.zeros((40, 0)), cells, 1, 0)
    else:
        x = Table(40, 1, 40, ("z",), (True,), values[:, None], (), 1, 0)
    assert leaked(x, x, [], CsvTable()) == ["z"]
    assert leaked(named("z"), x, [], CsvTable()) == []
