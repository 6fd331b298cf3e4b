"""Hostile text between fences, and answers that are any JSON."""

from __future__ import annotations

import json
import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mappa_env.coach.llm import answer
from mappa_env.coach.llm.answer import UnreadableError
from mappa_env.coach.llm.criteria import read_spec
from mappa_env.coach.llm.fences import fenced, neutral, nonce
from paths import REGISTRY


@given(st.text(), st.integers(10, 400))
def test_no_text_can_close_its_fence_or_hide_a_character(text: str, limit: int) -> None:
    number = nonce()
    shown = fenced("action", text, number, limit)
    assert shown.count("<<<") == 2
    assert shown.endswith(f"<<<{number} end of action")
    inner = shown.split("\n", 1)[1].rsplit("\n", 1)[0]
    assert len(inner) <= limit + 60
    assert all(c in "\n\t" or unicodedata.category(c) not in ("Cc", "Cf", "Cs", "Co", "Cn") for c in inner)


@given(st.text(st.characters(categories=("L", "N", "P", "S")), max_size=50))
def test_ordinary_text_is_shown_as_it_is(text: str) -> None:
    if "<<<" not in text and not set(text) & set("\u115f\u1160\u3164\uffa0\u2800"):
        assert neutral(text) == text


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=20),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
        max_leaves=10,
    )
)
def test_any_json_is_read_or_refused(value: Any) -> None:
    rows = read_spec(REGISTRY / "mathchat" / "coach.yaml", ("solver",)).roles["solver"]
    with pytest.raises(UnreadableError):
        answer.read(json.dumps(value), rows, ("solver_0",), corrections=False)
