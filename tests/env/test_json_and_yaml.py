"""JSON and YAML of others raise ValueError alone, and JSON for others has no number that JSON lacks."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mappa_env.json_and_yaml import json_text, read_json, read_yaml

DEEP = "[" * 100_000


@pytest.mark.parametrize("text", [DEEP, '{"a":' * 100_000, "", "{", "1" * 5000, b"\xff", b"\xff\xfe[\0]\0"])
def test_what_is_no_json_is_a_value_error(text: str | bytes) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        read_json(text)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 2000,
        "{a: " * 2000,
        "a: [",
        "2020-13-45",
        "!!int x",
        "!!timestamp '1'",
        "{[1]: 2}",
        "!!python/object:os.system {}",
        b"\xff",
        "\0",
    ],
)
def test_what_is_no_yaml_is_a_value_error(text: str | bytes) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        read_yaml(text)


@pytest.mark.parametrize("text", [b'\xef\xbb\xbf{"a": 1}', '\ufeff{"a": 1}', b'{"a": 1}'])
def test_a_byte_order_mark_is_no_content(text: str | bytes) -> None:
    assert read_json(text) == read_yaml(text) == {"a": 1}


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_written_json_is_strict(value: object) -> None:
    def refused(name: str) -> None:
        raise AssertionError(name)

    json.loads(json_text(value), parse_constant=refused)


def test_what_is_not_finite_becomes_null() -> None:
    figures = {"a": [math.nan, (math.inf, -math.inf)], "b": 1.5}
    assert json.loads(json_text(figures)) == {"a": [None, [None, None]], "b": 1.5}
