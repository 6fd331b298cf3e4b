"""Which rows of train.csv the rows of X_train are found to be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mappa_env.probes.alignment import labels_follow
from mappa_env.probes.baseline import baseline
from mappa_env.probes.csv_table import CsvTable, read_csv
from mappa_env.probes.facts import facts_of
from mappa_env.probes.inside.exporter import MAX_CELLS
from mappa_env.probes.opening import HEAD_ROWS, MODEL, TABLES, File, Opened
from mappa_env.probes.plain import Record, Table
from mappa_env.probes.rows import rows_of

ROWS = 200
RNG = np.random.default_rng(4)
VALUES = np.column_stack([RNG.normal(size=ROWS).round(4), RNG.integers(0, 9, ROWS), RNG.gamma(2, size=ROWS)])
NAMES = ("a", "b", "c")
KEPT = np.delete(np.arange(ROWS), [0, 5, 77, 78, 120])
MIXED = RNG.permutation(KEPT)


def csv_of(values: NDArray[Any]) -> CsvTable:
    rows = "\n".join(",".join(map(repr, row)) for row in values.tolist())
    return read_csv(f"{','.join(NAMES[: values.shape[1]])}\n{rows}".encode(), HEAD_ROWS)


def table_of(values: NDArray[Any], index: NDArray[Any] | None = None) -> Table:
    rows, cols = values.shape
    labels = np.zeros(0, dtype=np.int64) if index is None else index
    numbers = np.ascontiguousarray(values, dtype=float)
    return Table(rows, cols, rows, NAMES[:cols], (True,) * cols, numbers, (), 0, 0, index=labels)


def powers(values: NDArray[Any]) -> NDArray[Any]:
    return np.sign(values) * np.abs(values) ** 1.3


@pytest.mark.parametrize("rows", [KEPT, MIXED], ids=["dropped", "sorted"])
@pytest.mark.parametrize(
    ("changed", "named"),
    [
        (VALUES, False),
        ((VALUES - VALUES.mean(axis=0)) / VALUES.std(axis=0), False),
        (VALUES.astype(np.float32) * 7 - 3, False),
        (powers(VALUES), True),
        (-VALUES, True),
    ],
    ids=["same values", "scaled", "float32", "bent", "negative"],
)
def test_rows_are_found_by_their_index_or_their_values(
    rows: NDArray[Any], changed: NDArray[Any], named: bool
) -> None:
    found = rows_of(table_of(changed[rows], rows if named else None), [], csv_of(VALUES))
    assert found.names == list(NAMES)
    assert len(found.mine) > ROWS / 2
    assert (rows[found.mine] == found.given).all()
    assert not found.in_place


def test_a_false_index_gains_nothing() -> None:
    found = rows_of(table_of(VALUES[KEPT], RNG.permutation(len(KEPT))), [], csv_of(VALUES))
    assert (KEPT[found.mine] == found.given).all()
    assert len(found.mine) == len(KEPT)
    bent = powers(VALUES[MIXED])
    assert rows_of(table_of(bent, RNG.permutation(len(KEPT))), [], csv_of(VALUES)).names == []


def test_few_dropped_rows_are_found_by_ranks() -> None:
    found = rows_of(table_of(-powers(VALUES[KEPT])), [], csv_of(VALUES))
    assert found.names == list(NAMES)
    assert len(found.mine) > ROWS / 2
    assert (KEPT[found.mine] == found.given).all()
    assert not len(rows_of(table_of(powers(VALUES[::2])), [], csv_of(VALUES)).mine)


@pytest.mark.parametrize("walk", [np.arange(ROWS) ** 1.1, np.cumsum(RNG.normal(size=ROWS))])
def test_ranks_of_columns_that_hardly_change_from_row_to_row_tell_nothing(walk: NDArray[Any]) -> None:
    found = rows_of(table_of(np.arctan(walk[2:, None])), [], csv_of(walk[:, None]))
    assert (found.mine + 2 == found.given).all()


def test_an_index_that_counts_from_one_names_no_other_rows() -> None:
    """A column that only rises goes together with its neighbours, too."""
    rising = np.arange(ROWS)[:, None] * 1.5
    found = rows_of(table_of(np.log1p(rising[:-2]), np.arange(1, ROWS - 1)), [], csv_of(rising))
    assert not len(found.mine)


@pytest.mark.parametrize("few", [1, 7])
def test_values_that_several_rows_have_tell_nothing(few: int) -> None:
    column = RNG.integers(0, few + 1, ROWS)[:, None]
    assert not len(rows_of(table_of(column[KEPT]), [], csv_of(column)).mine)


def test_codes_of_a_table_of_all_combinations_tell_nothing() -> None:
    """They are values of the column, and yet stand for others."""
    first, second = (each.ravel() for each in np.meshgrid(np.arange(30), np.arange(40)))
    codes = np.random.default_rng(0).permutation(30)[first]
    table = table_of(np.column_stack([codes, second])[3:])
    found = rows_of(table, [], csv_of(np.column_stack([first, second])))
    assert not len(found.mine)
    assert found.names == []


def test_rows_are_found_among_the_first_of_many() -> None:
    values = np.random.default_rng(1).normal(size=(HEAD_ROWS + 1000, 2)).round(5)
    kept = np.delete(np.arange(len(values)), np.arange(7, len(values), 50))
    found = rows_of(table_of(values[kept]), [], csv_of(values))
    assert len(found.mine) > HEAD_ROWS / 2
    assert (kept[found.mine] == found.given).all()
    mixed = np.random.default_rng(2).permutation(kept)
    assert not len(rows_of(table_of(values[mixed]), [], csv_of(values)).mine)


def test_rows_in_place_are_found_as_they_are() -> None:
    found = rows_of(table_of(powers(VALUES)), ["b"], csv_of(VALUES))
    assert found.in_place
    assert found.names == ["a", "c"]


@pytest.mark.parametrize(
    ("rows", "cols", "said"), [(2500, 2, "sampled"), (1500, 2, None), (2500, 1000, "partial")]
)
def test_a_random_sample_of_all_rows_is_no_part(rows: int, cols: int, said: str | None) -> None:
    rng = np.random.default_rng(0)
    names = tuple(f"x{at}" for at in range(cols))
    kept = min(rows, MAX_CELLS // cols)
    x, z = (
        Table(size, cols, some, names, (True,) * cols, rng.normal(size=(some, cols)), (), 0, 0)
        for size, some in ((rows, kept), (50, 50))
    )
    y = Table(rows, 1, rows, ("y",), (True,), rng.normal(size=(rows, 1)), (), 0, 0)
    files = {name: File(record=Record(table=each)) for name, each in zip(TABLES, (x, y, z), strict=True)}
    opened = Opened({**files, MODEL: File()}, None, allowed=baseline(x, y, z))
    train = read_csv(("x0,y\n" + "1,2\n" * rows).encode(), HEAD_ROWS)
    allowed = facts_of(opened, train, read_csv(b"x0\n1\n", HEAD_ROWS))["allowed"]
    assert {"sampled", "partial"}.intersection(allowed) == ({said} if said else set())


@pytest.mark.parametrize(("first", "follow"), [(0.0, 0.5), (1.0, 0.95)])
def test_labels_that_are_all_the_same_where_they_should_differ_do_not_follow(
    first: float, follow: float
) -> None:
    """They are sorted, say, and only the first rows of train.csv are at hand."""
    values = np.column_stack([RNG.normal(size=ROWS), np.arange(ROWS) % (2 if follow < 0.9 else 20) == 0])
    train, x = csv_of(values), table_of(values[:, :1])
    y = Table(ROWS, 1, ROWS, ("b",), (True,), np.full((ROWS, 1), first), (), 0, 0)
    rows = rows_of(x, ["b"], train)
    assert labels_follow(x, y, ["b"], train, rows, labels=False) == follow
