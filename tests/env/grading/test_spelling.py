"""Ids and labels are compared by the type of their column, whatever a program makes of them on the way."""

from __future__ import annotations

import io

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pandas._libs.parsers import STR_NA_VALUES

from mappa_env.grading.spelling import MISSING, Keys, Labels, canonical


@pytest.mark.parametrize(
    ("own", "theirs"),
    [
        (["1150", "7"], ["1150.0", "7.0"]),
        (["0007", "0012"], ["7", "12"]),
        (["500.1000", "500.1001"], ["500.1", "500.1001"]),
        (["100000", "3"], ["1e+05", "3"]),
        (["-5", "5"], ["-5.0", "+5"]),
        (["007", "a7"], ["007", " a7 "]),
        (["2011-01-20 00:00:00", "x"], ["2011-01-20 00:00:00", "x"]),
        (["1e3", "7"], ["1000.0", "7.0"]),
        (["1E+05", "2e-1", ".5e1"], ["100000.0", "0.2", "5.0"]),
        (["1e3", "x"], ["1e3", "x"]),
        (["1e3", "1000"], ["1e3", "1000"]),
        (["12345678901234567890", "12345678901234567891"], ["12345678901234567890", "12345678901234567891"]),
    ],
)
def test_the_same_ids_are_found(own: list[str], theirs: list[str]) -> None:
    key_of = Keys(own)
    assert [key_of(text) for text in theirs] == [key_of(text) for text in own]
    assert len({key_of(text) for text in own}) == len(own)


@pytest.mark.parametrize(
    ("own", "theirs"),
    [
        (["7", "0007"], ["7.0", "07"]),  # both spellings are ids: they are texts
        (["a7", "07"], ["7"]),
        (["1", "2"], ["1.5", "nan", "", "one", "1_0", "1e999", "0x1", "\u0661"]),
        (["x", "y"], ["X"]),
        (["1e3", "x"], ["1000", "1000.0"]),
        (["1", "2"], [".", "-", "e3", "1e", "1e0x"]),
    ],
)
def test_other_ids_are_not(own: list[str], theirs: list[str]) -> None:
    key_of = Keys(own)
    known = {key_of(text) for text in own}
    assert not [text for text in theirs if key_of(text) in known]


columns = st.one_of(
    st.lists(st.integers(-(10**12), 10**12).map(str), min_size=1, max_size=20, unique=True),
    st.lists(st.integers(0, 10**9).map(lambda n: f"{n:012d}"), min_size=1, max_size=20, unique=True),
    st.lists(st.integers(0, 10**9).map(lambda n: f"{n / 10000:.4f}"), min_size=1, max_size=20, unique=True),
    st.lists(st.from_regex(r"[a-z][a-z0-9_-]{0,8}", fullmatch=True), min_size=1, max_size=20, unique=True),
)


@settings(max_examples=25, deadline=None)
@given(columns, st.booleans())
def test_ids_survive_a_round_trip_through_pandas(ids: list[str], gap: bool) -> None:
    table = pd.read_csv(io.StringIO("\n".join(["id", *ids])), keep_default_na=False)
    if gap and table["id"].dtype.kind in "if":
        table["id"] = table["id"].astype(float)  # as after a join that leaves gaps
    back = table.to_csv(index=False).split("\n")[1:-1]
    key_of = Keys(ids)
    assert [key_of(text) for text in back] == [key_of(text) for text in ids]


def test_booleans_and_ones_are_understood_where_labels_are_of_that_kind() -> None:
    truths = Labels(["True", "False"])
    assert [truths(text) for text in ("true", "1", "1.0", "FALSE", "0", "2", "yes")] == [
        *("True", "True", "True", "False", "False", "2", "yes")
    ]
    numbers = Labels(["0", "1.0"])
    assert [numbers(text) for text in ("True", "false", "1", "0.0", "2")] == ["1", "0", "1", "0", "2"]
    for known in (["0", "1", "2"], ["True", "1"], ["yes", "no"], []):
        other = Labels(known)
        assert [other(text) for text in ("true", "1", "0")] == ["True", "1", "0"]
    assert Labels(["True"])("0") == "False"


@pytest.mark.parametrize(
    ("own", "theirs"),
    [
        (["0", "1"], ["0.000000000000000000e+00", "1.000000000000000000e+00"]),
        (["0", "1"], ["0E0", "1e0"]),
        (["0", "1"], ["-0e0", "1E+00"]),
        (["1e0", "2e0"], ["1.0", "2"]),
        (["0.1", "1.25"], ["1.000000000000000056e-01", "1.250000000000000000e+00"]),
        (["0.1"], ["0.1000000000000000056"]),
        (["100000", "0.0000001"], ["1e+05", "1e-07"]),
        (["01", "1.50"], ["1", "1.5"]),
        (["True", "False"], ["1e0", "0e0"]),
        (["-5", "12345678901234567891"], ["-5.0", "12345678901234567891"]),
    ],
)
def test_labels_that_are_numbers_are_equal_by_value(own: list[str], theirs: list[str]) -> None:
    labels = Labels(own)
    assert [labels(text) for text in theirs] == [labels(text) for text in own]
    assert len({labels(text) for text in own}) == len(own)


@pytest.mark.parametrize("text", ["1e", "e1", "1e1e1", "1e0x", "1 e0", "0x1", "1_0e0", "1e9999", "\u0661e0"])
def test_what_only_looks_like_a_number_is_a_text(text: str) -> None:
    assert canonical(text) == text


@pytest.mark.parametrize("kind", [float, int])
def test_labels_survive_savetxt(kind: type) -> None:
    values = np.array([0, 1, 2, 10, 1000], dtype=kind)
    out = io.StringIO()
    np.savetxt(out, values)
    labels = Labels([str(value) for value in values])
    assert {labels(line) for line in out.getvalue().split()} == labels.known


@pytest.mark.parametrize("name", sorted(STR_NA_VALUES - {""}))
def test_a_label_called_like_a_missing_value_is_understood_as_one(name: str) -> None:
    labels = Labels([name, "x"])
    back = pd.read_csv(io.StringIO(f"label,n\n{name},1\nx,2\n")).to_csv(index=False)
    assert [labels(row.split(",")[0]) for row in back.split("\n")[1:-1]] == [name, "x"]
    assert labels("nan") == labels("NA") == name
    assert labels("y") == "y"


def test_missing_values_are_those_of_pandas_and_no_label_where_two_are_or_none() -> None:
    assert MISSING == STR_NA_VALUES
    for known in (["NA", "None", "x"], ["x", "y"], ["0", "1"]):
        assert Labels(known)("") == ""
        assert Labels(known)("nan") == "nan"
    assert [Labels(["NA", "None", "x"])(text) for text in ("NA", "None")] == ["NA", "None"]
