"""Hostile text between fences, and answers that are any JSON."""

from __future__ import annotations

import json
import time
import unicodedata
from typing import Any

import pytest
import requests
from hypothesis import given
from hypothesis import strategies as st

from mappa_env.coach.llm import answer
from mappa_env.coach.llm.answer import UnreadableError
from mappa_env.coach.llm.buckets import BURST_S, Buckets
from mappa_env.coach.llm.cache import key
from mappa_env.coach.llm.completions import Completed, Completions
from mappa_env.coach.llm.criteria import read_spec
from mappa_env.coach.llm.fences import fenced, neutral, nonce
from mappa_env.coach.llm.http import hidden
from mappa_env.coach.llm.models import Rates
from mappa_env.coach.llm.openai_compat import _verdict
from mappa_env.coach.llm.settings import Settings
from mappa_env.coach.llm.wire import Passing, Request, Usage
from mappa_env.errors import OptionError
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


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('```json\n{"a": 1}\n```', '{"a": 1}'),
        ('```\n\n{"a": 1}\n\n```', '{"a": 1}'),
        ('{"a": "```"}', '{"a": "```"}'),
        ("```python\nx\n```", "```python\nx\n```"),
        ("```json\nx", "```json\nx"),
        ("```" + "\n" * 200_000 + "x", "```" + "\n" * 200_000 + "x"),
    ],
)
def test_a_fence_around_an_answer_is_taken_off_in_linear_time(text: str, found: str) -> None:
    completed = Completed(text, "", "stop", "", Usage(), "m", "1")
    began = time.process_time()
    assert _verdict(completed).text == found
    assert time.process_time() - began < 1


def test_keys_are_hidden_in_long_errors_in_linear_time() -> None:
    assert (
        hidden("the key sk-ab***yz, or sk-secret-1, is wrong", "sk-secret-1")
        == "the key [key] or [key], is wrong"
    )
    began = time.process_time()
    assert "sk-secret-1" not in hidden("x" * (1 << 20) + " " + "*" * (1 << 20) + "sk-secret-1", "sk-secret-1")
    assert time.process_time() - began < 1


def test_a_call_with_a_lone_surrogate_has_a_key() -> None:
    assert key(complaint="finish reason \ud800") != key(complaint="finish reason ?")


def test_the_size_of_a_question_holds_its_schema() -> None:
    schema = {"type": "object", "properties": {"grade": {"type": "integer"}}}
    assert Request("s", ("p",), schema).size > Request("s", ("p",), {}).size + len(json.dumps(schema))


def test_a_key_with_a_line_break_at_its_end_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings.model_validate({"key_variable": "SOME_KEY"})
    monkeypatch.setenv("SOME_KEY", "sk-secret-1\n")
    made = Completions("m", "http://127.0.0.1:9/v1", settings)
    request = made._sign(requests.Request("POST", "http://127.0.0.1:9/").prepare())
    assert request.headers["Authorization"] == "Bearer sk-secret-1"
    for wrong in ("“sk-secret-1”", "sk-secret\n-1"):
        monkeypatch.setenv("SOME_KEY", wrong)
        with pytest.raises(OptionError, match="characters that no key has") as caught:
            Completions("m", "http://127.0.0.1:9/v1", settings)
        assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("rates", "tokens"),
    [(Rates(requests=11), 1.0), (Rates(tokens=60_000), 5_200.0), (Rates(tokens=600), 100.0)],
)
def test_a_request_of_more_than_the_burst_waits_and_is_sent(rates: Rates, tokens: float) -> None:
    now = [0.0]
    buckets = Buckets(rates, clock=lambda: now[0])
    per_minute = rates.tokens or rates.requests
    needed = (tokens if rates.tokens else 1.0) * 60 / per_minute
    now[0] = needed - BURST_S  # what it needs beyond the burst
    waited, _ = buckets.turn(lambda: tokens, until=now[0] + 0.01)
    assert waited == 0.0
    with pytest.raises(Passing):  # and nothing more is left
        buckets.turn(lambda: tokens, until=now[0] + 0.01)
