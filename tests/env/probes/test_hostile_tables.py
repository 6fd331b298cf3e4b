"""Whatever tables and predictions hold, the host computes facts: it never raises, and never warns."""

from __future__ import annotations

import json
import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.dummy import DummyRegressor

from mappa_env.probes.baseline import MAX_CLASSES, baseline
from mappa_env.probes.csv_table import CsvTable, read_csv
from mappa_env.probes.facts import facts_of
from mappa_env.probes.opening import MODEL, TABLES, Asked, File, Opened
from mappa_env.probes.plain import Record, Table
from mappa_env.probes.predictions import Array, Said
from probing import look

USUAL = [0.0, -0.0, 1.0, 2.0, 3.5]
FINITE = [*USUAL, 1e39, -1e39, 1e300, -1.7e308, 5e-324, 2.0**53]
NUMBERS = [*FINITE, math.nan, math.inf, -math.inf]
TEXTS = [None, "", "a", "b", "1", "nan", "é" * 80, " "]
NAMES = ["a", "b", "t", "t_1", "id", "", "é" * 200]
TRAIN, TEST = b"id,a,b,t\n" + b"1,2,x,0\n2,3,y,1\n" * 20, b"id,a,b\n" + b"1,2,x\n" * 3


def tables(most: int = 5) -> st.SearchStrategy[Table]:
    """Tables of any size, also without rows or columns, with any kind of cells."""
    return st.builds(
        table,
        st.integers(0, 48),
        st.one_of(
            st.lists(st.tuples(st.sampled_from(NAMES), numeric), max_size=most)
            for numeric in (st.just(True), st.booleans())
        ),
        st.one_of(
            st.lists(st.sampled_from(cells), min_size=1, max_size=60) for cells in (USUAL, FINITE, NUMBERS)
        ),
        st.lists(st.sampled_from(TEXTS), min_size=1, max_size=60),
    )


def table(rows: int, columns: list[tuple[str, bool]], numbers: list[float], texts: list[str | None]) -> Table:
    kinds = tuple(numeric for _, numeric in columns)
    width = sum(kinds)
    cells = np.resize(np.array(numbers, dtype=float), (rows, width))
    words = tuple(
        tuple(texts[(at + row) % len(texts)] for row in range(rows)) for at in range(kinds.count(False))
    )
    names = tuple(name for name, _ in columns)
    return Table(rows, len(names), rows, names, kinds, cells, words, 0, 0)


@st.composite
def arrays(draw: st.DrawFn) -> Array:
    rows, cols = draw(st.integers(0, 5)), draw(st.integers(0, 3))
    cells: Any = draw(st.sampled_from([NUMBERS, [1, 2**60, -3], [True, False], ["", "a", "t"]]))
    kind = {float: float, int: np.int64, bool: bool}.get(type(cells[0]), object)
    start = draw(st.integers(0, 9))
    values = [cells[(start + at) % len(cells)] for at in range(rows * cols)]
    names = tuple(draw(st.sampled_from(["0", "1", "output_0", ""])) for _ in range(cols))
    return Array(draw(st.integers(rows, 9)), np.array(values, dtype=kind).reshape(rows, cols), names)


SAID = st.builds(
    Said,
    st.sampled_from(["", "ValueError: x"]),
    st.sampled_from(["", "Model"]),
    st.booleans(),
    st.booleans(),
    st.none() | arrays(),
    st.none() | arrays(),
)

ASKED = st.builds(Asked, SAID, SAID, st.booleans())


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(tables(), tables(2), tables(), st.booleans(), st.none() | ASKED)
def test_any_tables_and_predictions_have_facts(
    x: Table, y: Table, test: Table, same: bool, asked: Asked | None
) -> None:
    test = x if same else test
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        allowed = baseline(x, y, test)
        files = {
            name: File(record=Record(kind="DataFrame", table=each))
            for name, each in zip(TABLES, (x, y, test), strict=True)
        }
        opened = Opened({**files, MODEL: File()}, asked, allowed=allowed)
        for train, given_test in ((read_csv(TRAIN, 2000), read_csv(TEST, 2000)), (CsvTable(), CsvTable())):
            json.dumps(facts_of(opened, train, given_test), allow_nan=False)


def one_column(name: str, values: list[Any]) -> Table:
    numeric = not isinstance(values[0], str)
    cells = np.array(values, dtype=float)[:, None] if numeric else np.zeros((len(values), 0))
    texts = () if numeric else (tuple(values),)
    return Table(len(values), 1, len(values), (name,), (numeric,), cells, texts, 0, 0)


def test_labels_above_a_million_stay_apart() -> None:
    """A short form of numbers would join labels that differ in their last digits."""
    labels = [10_000_001.0, 10_000_002.0] * 10
    found = baseline(one_column("a", labels), one_column("y", labels), one_column("a", labels[:2]))
    assert found is not None
    assert list(found.predictions) == ["10000001", "10000002"]


def test_labels_of_very_many_classes_are_left_out() -> None:
    few = [f"k{at % MAX_CLASSES}" for at in range(4 * MAX_CLASSES)]
    many = [f"k{at % (MAX_CLASSES + 1)}" for at in range(4 * MAX_CLASSES)]
    x = one_column("a", [float(at) for at in range(4 * MAX_CLASSES)])
    assert baseline(x, one_column("y", few), x) is not None
    assert baseline(x, one_column("y", many), x) is None


def frame() -> pd.DataFrame:
    return pd.DataFrame(np.random.default_rng(0).uniform(size=(60, 3)), columns=list("abc"))


CASES = {
    "a value too large for trees": lambda x, y, z: (x.where(x.a != x.a[0], 1e39), y, z),
    "a test value too large for trees": lambda x, y, z: (x, y, z.where(z.a != z.a[0], 1e39)),
    "an infinite label": lambda x, y, z: (x, y.where(y != y[3], -np.inf), z),
    "a huge label": lambda x, y, z: (x, y.where(y != y[3], 1e300), z),
    "no columns": lambda x, y, z: (x[[]], y, z[[]]),
    "no rows": lambda x, y, z: (x[:0], y[:0], z[:0]),
}


@pytest.mark.parametrize("name", CASES)
def test_a_strange_table_and_any_model_are_probed(name: str, tmp_path: Path) -> None:
    x = frame()
    for file, value in zip(TABLES, CASES[name](x, x.a * 7, x), strict=True):
        value.to_pickle(tmp_path / file)
    pd.to_pickle(DummyRegressor().fit([[0]], [1.5]), tmp_path / MODEL)
    facts = look(tmp_path)
    assert facts["X_train"]["loads"]
    assert facts["model"]["loads"]
