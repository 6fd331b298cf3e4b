"""Labels of several columns: which is which target, on which scale, and what the host learns from them."""

from __future__ import annotations

import time

import numpy as np
import pytest

from mappa_env.probes.alignment import labels_follow
from mappa_env.probes.baseline import baseline
from mappa_env.probes.columns import MOST_TARGETS, places_of
from mappa_env.probes.csv_table import CsvTable, read_csv
from mappa_env.probes.facts import table_facts
from mappa_env.probes.one_hot import one_hot_of
from mappa_env.probes.plain import Table
from mappa_env.probes.rows import rows_of
from mappa_env.probes.scale import scale_of

TARGETS = ["a", "b", "c"]
GIVEN = np.random.default_rng(0).uniform(1, 100, (200, 3)).round(6)
WON = np.random.default_rng(1).integers(0, 3, 200)


def train_of(values: np.ndarray, most: int = 2000) -> CsvTable:  # type: ignore[type-arg]
    lines = [",".join(map(str, (at, *row))) for at, row in enumerate(values.tolist())]
    return read_csv("\n".join(("id,a,b,c", *lines)).encode(), most, CsvTable(("id",)))


def numbers(values: np.ndarray, names: str = "abc") -> Table:  # type: ignore[type-arg]
    rows, cols = values.shape
    return Table(rows, cols, rows, tuple(names), (True,) * cols, values.astype(float), (), 0, 0)


def words(cells: list[str]) -> Table:
    rows = len(cells)
    return Table(rows, 1, rows, ("y",), (False,), np.empty((rows, 0)), (tuple(cells),), 0, 0)


TRAIN = train_of(GIVEN)
ONE_HOT = train_of((WON[:, None] == np.arange(3)).astype(int))


@pytest.mark.parametrize(
    ("names", "places"),
    [
        ("abc", (0, 1, 2)),
        ("cab", (1, 2, 0)),
        ("012", (0, 1, 2)),
        ("c01", (1, 2, 0)),
        ("aab", (1, 2, 0)),
        ("ab", ()),
        ("abcd", ()),
    ],
)
def test_columns_go_by_name_and_others_by_place(names: str, places: tuple[int, ...]) -> None:
    assert places_of(numbers(GIVEN[:, [0] * len(names)], names), TARGETS) == places


@pytest.mark.parametrize(
    ("mine", "names", "sound"),
    [
        (GIVEN, "abc", True),
        (GIVEN[:, ::-1], "cba", True),
        (GIVEN, "012", True),
        (np.log(GIVEN), "abc", True),
        (GIVEN[:, ::-1], "012", False),
        (GIVEN, "cba", False),
        (np.column_stack([GIVEN[:, :2], GIVEN[::-1, 2]]), "abc", False),
    ],
)
def test_the_column_that_follows_least_counts(mine: np.ndarray, names: str, sound: bool) -> None:  # type: ignore[type-arg]
    x = Table(200, 1, 200, ("id",), (True,), np.arange(200.0)[:, None], (), 0, 0)
    follow = labels_follow(x, numbers(mine, names), TARGETS, TRAIN, rows_of(x, TARGETS, TRAIN), labels=False)
    assert follow is not None
    assert (follow > 0.9) == sound


@pytest.mark.parametrize("drop", [0, 2])
def test_each_column_has_its_own_scale_and_place(drop: int) -> None:
    mine = np.column_stack([np.log(GIVEN[:, 2]), GIVEN[:, 0], GIVEN[:, 1] * 1000])[drop:]
    scales = scale_of(numbers(mine, "cab"), TARGETS, TRAIN)
    assert scales is not None
    assert scales.turned
    undone = scales.undone(mine.tolist())
    assert undone is not None
    # Where rows were dropped, others of about the same rank stand for them.
    assert np.abs(np.array(undone) - GIVEN[drop:]).max() < (0.001 if not drop else 5)
    assert scales.undone(["x"] * 3) is scales.undone([[1.0, 2.0]]) is scales.undone([[1.0, 2.0, "x"]]) is None


def test_columns_as_they_are_have_no_scale() -> None:
    assert scale_of(numbers(GIVEN), TARGETS, TRAIN) is None
    assert scale_of(numbers(GIVEN[:150]), TARGETS, TRAIN) is None
    turned = scale_of(numbers(GIVEN[:, ::-1], "cba"), TARGETS, TRAIN)
    assert turned is not None
    assert not turned.others


@pytest.mark.parametrize("share", [0.05, 0.5])
def test_a_long_table_has_a_scale_though_rows_were_dropped(share: float) -> None:
    given = np.random.default_rng(2).lognormal(3, 1, (5000, 3)).round(6)
    train = train_of(given)
    assert len(train.head) == 2000
    kept = given[(given < np.quantile(given, 1 - share, axis=0)).all(axis=1)]
    assert scale_of(numbers(np.log(kept)), TARGETS, train) is not None
    assert scale_of(numbers(kept), TARGETS, train) is None


@pytest.mark.parametrize(
    ("change", "known"),
    [
        (lambda t: t + 0.7 * t.std(), True),
        (lambda t: t - 0.5 * t.std(), True),
        (lambda t: t, False),
        (lambda t: t + np.random.default_rng(1).normal(0, t.std() / 4, t.shape), False),
        (lambda t: np.convolve(t, np.ones(5) / 5, "same"), False),
        (lambda t: np.sort(t)[: -len(t) // 20], False),
        (lambda t: np.sort(t)[len(t) // 20 :] * (1 + 1e-4), False),
    ],
)
def test_few_rows_that_were_dropped_move_values_only_so_far(change, known: bool) -> None:  # type: ignore[no-untyped-def]
    given = np.random.default_rng(0).normal(50, 10, 300).round(6)
    train = read_csv(("id,t\n" + "\n".join(f"{i},{v}" for i, v in enumerate(given))).encode(), 1000)
    assert (scale_of(numbers(change(given)[3:, None], "t"), ["t"], train) is not None) == known


@pytest.mark.parametrize(
    ("y", "kind"),
    [
        (numbers(WON[:, None], "y"), "named"),
        (numbers(WON[5:, None], "y"), "named"),
        (words([TARGETS[at] for at in WON]), "named"),
        (words([("x", "z", "w")[at] for at in WON]), "named"),
        (numbers((2 - WON)[:, None], "y"), "coded"),
        (numbers((WON == 0)[:, None], "y"), None),
        (numbers(GIVEN[:, :1], "y"), None),
        (numbers(np.column_stack([WON, WON]), "yz"), None),
    ],
)
def test_one_column_may_stand_for_targets_of_which_one_is_1(y: Table, kind: str | None) -> None:
    found = one_hot_of(y, TARGETS, ONE_HOT)
    assert (found is None) == (kind is None)
    if found is not None:
        assert found.coded == (kind == "coded")
        assert sorted(found.names.values()) == TARGETS
        assert found.follows in (None, 1.0)


def test_labels_of_other_rows_do_not_follow_the_targets() -> None:
    mixed = np.random.default_rng(5).permutation(WON)
    for y in (numbers(mixed[:, None], "y"), words([TARGETS[2 - at] for at in WON])):
        found = one_hot_of(y, TARGETS, ONE_HOT)
        assert found is not None
        assert found.follows is not None
        assert found.follows < 0.9
    assert one_hot_of(numbers(WON[:, None], "y"), TARGETS, TRAIN) is None  # the targets are no one-hot


def test_the_host_fits_its_models_to_all_columns() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 3))
    flags = (x > 0.5).astype(float)
    table = numbers(x, "pqr")
    found = baseline(table, numbers(flags), table)
    assert found is not None
    assert found.smooth is not None
    for each in (found, found.smooth):
        assert each.predictions.shape == (300, 3)
        assert ((each.predictions > 0.5) == flags).mean() > 0.8
    named = Table(
        300,
        2,
        300,
        ("a", "b"),
        (True, False),
        flags[:, :1],
        (tuple(("no", "yes")[int(flag)] for flag in flags[:, 1]),),
        0,
        0,
    )
    mixed = baseline(table, named, table)
    assert mixed is not None
    assert ((mixed.predictions > 0.5) == flags[:, :2]).mean() > 0.9
    wide = numbers(np.tile(flags, MOST_TARGETS), "abc" * MOST_TARGETS)
    assert baseline(table, wide, table) is None


def test_one_column_that_never_varies_is_no_table_of_one_value() -> None:
    assert table_facts(numbers(np.column_stack([np.zeros(200), GIVEN[:, 0]]), "ab"))["distinct"] > 1
    assert table_facts(numbers(np.zeros((200, 2)), "ab"))["distinct"] == 1


def test_three_columns_cost_hardly_more_than_one() -> None:
    x = np.random.default_rng(0).normal(size=(2000, 6))
    table = numbers(x, "pqrstu")

    def seconds(cols: int) -> float:
        y = numbers(x[:, :cols] ** 3, "abc"[:cols])
        start = time.thread_time()
        baseline(table, y, table)
        return time.thread_time() - start

    assert min(seconds(3) for _ in range(3)) < 3 * min(seconds(1) for _ in range(3))
