"""Parsing actions: fences, tool calls, thinking, boxes; any text parses in linear time."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mappa_env.parsing import MAX_ACTION_CHARS, last_boxed, parse, split_thinking

PIECES = [
    "```python\n",
    "```",
    "\n",
    "<think>",
    "</think>",
    "<tool_call>",
    "</tool_call>",
    "\\boxed{",
    "}",
    "x = 1",
    "é",
]


def call(code: object) -> str:
    return f"<tool_call>{json.dumps({'name': 'python', 'arguments': {'code': code}})}</tool_call>"


@given(st.text() | st.lists(st.sampled_from(PIECES)).map("".join))
def test_any_text_parses(text: str) -> None:
    action = parse(text)
    assert action.text == text.encode("utf-8", "replace").decode()
    assert parse(text, tools=False).code is None
    assert len(action.answer) <= len(text)
    last_boxed(action.text)


@given(st.lists(st.text(alphabet="abc =1\n"), min_size=1, max_size=4))
def test_all_closed_fences_become_one_script(blocks: list[str]) -> None:
    text = "words\n".join(f"```python\n{block}\n```\n" for block in blocks)
    assert parse(text).code == "\n\n".join(blocks)


@given(st.lists(st.text(), min_size=1, max_size=3))
def test_tool_calls_carry_any_code(codes: list[str]) -> None:
    assert parse(" then ".join(call(code.replace("<", "")) for code in codes)).code == "\n\n".join(
        code.replace("<", "").encode("utf-8", "replace").decode() for code in codes
    )


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("```py\n1\n```", "1"),
        ("```Python3\n1\n```", "1"),
        ("  ```python\n1\n  ```", "1"),
        ("```python\n1", None),  # never closed: never runs
        ("```\n1\n```", None),
        ("```bash\nls\n```", None),
        ("```bash\n```python\n1\n```", None),  # inside another block
        ("```python\n```", ""),
        ("```inline``` ```python\n1\n```", None),
        ("<think>```python\n1\n```</think>done", None),
        ("```python\n1\n```</think>```python\n2\n```", "2"),
        ("```python\n1\n```</think>\n```python\n2\n```", "2"),
        ("<think>a</think>\n```python\n1\n```<think>b", "1"),
        ("<tool_call>nonsense</tool_call>", None),
        ('<tool_call>{"arguments": []}</tool_call>', None),
        (call(7), None),
        (call("1"), "1"),
        (call("1") + "\n```python\n2\n```", "1"),
        ("<tool_call>" + "[" * 100_000 + "</tool_call>", None),
    ],
)
def test_what_runs_and_what_does_not(text: str, code: str | None) -> None:
    assert parse(text).code == code


@pytest.mark.parametrize(
    ("text", "thinking", "answer"),
    [
        ("plain", "", "plain"),
        ("<think>a</think>b", "a", "b"),
        ("a</think>b", "a", "b"),  # the chat template opened the block
        ("<think>a", "a", ""),
        ("<think>a</think>b<think>c</think>d", "a\nc", "bd"),
    ],
)
def test_thinking_is_split_off(text: str, thinking: str, answer: str) -> None:
    assert split_thinking(text) == (thinking, answer)


@pytest.mark.parametrize(
    ("text", "content"),
    [
        (r"\boxed{1} and \boxed{2}", "2"),
        (r"\boxed{\frac{1}{2}}", r"\frac{1}{2}"),
        (r"\boxed {3}", "3"),
        (r"\boxed{1} then \boxed{2", "1"),
        (r"\boxed{1 \boxed{2}", "2"),
        (r"\boxed{\boxed{2} 3}", "2"),
        (r"} \boxed{1} }", "1"),
        (r"\boxed", None),
        ("", None),
    ],
)
def test_last_box(text: str, content: str | None) -> None:
    assert last_boxed(text) == content


def test_what_utf8_cannot_hold_is_replaced() -> None:
    assert parse("a\ud800b").text == "a?b"


def test_long_actions_are_cut_and_say_so() -> None:
    action = parse("x" * (MAX_ACTION_CHARS + 5))
    assert action.text.endswith("[5 characters of this action were cut]")
    assert len(action.text) < MAX_ACTION_CHARS + 100


@pytest.mark.parametrize(
    "piece",
    ["```", "```python\n", "\n```\n", "<think>", "</think>", "<tool_call>", "<tool_call>{", " ", "\n"],
)
def test_time_is_linear(piece: str) -> None:
    text = piece * (MAX_ACTION_CHARS // len(piece))
    start = time.process_time()
    parse(text)
    last_boxed(text)
    assert time.process_time() - start < 2.0  # quadratic time would be minutes
