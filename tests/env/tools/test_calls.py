"""Calls in an action: what counts as one, what it holds, and why it cannot be carried out."""

from __future__ import annotations

import json
import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mappa_env.parsing import find_code
from mappa_env.tools.base import ToolSpec
from mappa_env.tools.calls import MOST, find_calls
from mappa_env.tools.python import SPEC
from mappa_env.trace.jsonlines import from_plain, record_to_json
from mappa_env.types import ToolCall

TEXT = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}
TWO = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["city", "days"],
}
OFFERED = {
    "python": SPEC,
    "search": ToolSpec("", "", TEXT),
    "lab.Weigh": ToolSpec("Weigh", "", TWO),
}


def native(name: object, arguments: object) -> str:
    return f"<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>"


def test_fences_and_native_calls_say_the_same() -> None:
    fences = find_calls(
        'I look.\n```search\nthe Sarn\n```\n```lab.weigh\n{"city": "a", "days": 2}\n```', OFFERED
    )
    blocks = find_calls(
        native("search", {"query": "the Sarn"}) + native("lab.Weigh", {"city": "a", "days": 2}), OFFERED
    )
    assert fences == blocks
    assert [(call.tool, dict(call.arguments), call.problem) for call in fences] == [
        ("search", {"query": "the Sarn"}, ""),
        ("lab.Weigh", {"city": "a", "days": 2}, ""),
    ]


def test_code_and_calls_mix_in_order() -> None:
    calls = find_calls("```python\nprint(1)\n```\n```search\nx\n```\n```py\nprint(2)\n```", OFFERED)
    assert [call.tool for call in calls] == ["python", "search", "python"]
    assert calls[2].arguments == {"code": "print(2)"}


FORMATS = {
    "qwen": "I look.\n" + "\n".join("<tool_call>\n{}\n</tool_call>" for _ in range(2)),
    "smollm2": "<tool_call>[{}, {}]</tool_call>",
    "mistral": "I look.[TOOL_CALLS] [{}, {}]</s>",
    "mistral-v11": "[TOOL_CALLS]{}[ARGS]{}[TOOL_CALLS]{}[CALL_ID]abc[ARGS]{}",
}


@pytest.mark.parametrize("family", FORMATS)
def test_the_formats_of_chat_templates_say_the_same(family: str) -> None:
    asked = [("python", {"code": "print(1)"}), ("search", {"query": "the [Sarn] {river}"})]
    if family == "mistral-v11":
        said = [part for name, arguments in asked for part in (name, json.dumps(arguments))]
    else:
        said = [json.dumps({"name": name, "arguments": arguments, "id": "a"}) for name, arguments in asked]
    pieces = iter(said)
    text = re.sub(re.escape("{}"), lambda _: next(pieces), FORMATS[family])
    calls = find_calls(text, OFFERED)
    assert [(call.tool, call.arguments, call.problem) for call in calls] == [(*each, "") for each in asked]
    assert find_code(text) == "print(1)"


@pytest.mark.parametrize("mark", ["", "<|python_tag|>"])
def test_an_answer_that_is_one_call_of_llama(mark: str) -> None:
    text = mark + '{"type": "function", "name": "python", "parameters": {"code": "print(1)"}}'
    assert [(call.tool, call.problem) for call in find_calls(text, OFFERED)] == [("python", "")]
    assert find_code(text) == "print(1)"


def test_native_calls_win_over_fences() -> None:
    assert [c.tool for c in find_calls("```search\nx\n```" + native("search", {"query": "y"}), OFFERED)] == [
        "search"
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (native("browse", {}), "you may not use 'browse'; your tools are python, search"),
        (native("serch", {"query": "x"}), "Did you mean 'search'"),
        (native("search", {}), "the argument 'query' is missing"),
        (native("search", {"query": 3}), "'query' must be of type string"),
        (native("search", {"query": "x", "topp": 3}), "unknown argument 'topp'; it takes query"),
        (native("lab.weigh", {"city": "a", "days": True}), "'days' must be of type integer"),
        (native("search", "x"), "not a JSON object of the form"),
        (native(None, {}), "not a JSON object of the form"),
        ("<tool_call>{search: x}</tool_call>", "not a JSON object of the form"),
        ('<tool_call>{"name": "search", "arguments": {"query": NaN}}</tool_call>', "not a JSON object"),
        ("<tool_call>" + '{"a":' * 5000 + "</tool_call>", "not a JSON object"),
        ("```lab.weigh\ncity: a\n```", "must hold a JSON object"),
        ("```other\nx\n```", "you may not use 'other'"),
    ],
)
def test_a_call_that_cannot_be_carried_out_says_why(text: str, words: str) -> None:
    (call,) = find_calls(text, OFFERED, ("other",))
    assert words in call.problem


@pytest.mark.parametrize(
    "text",
    [
        "",
        "```bash\nls\n```",
        "```search",
        "<tool_call>{}",
        "no call",
        "``` search x\n```",
        "[TOOL_CALLS] are written in brackets",
        'For example {"name": "search", "parameters": {"query": "x"}}',
        '{"name": "Ada", "parameters": {}, "age": 36}',
    ],
)
def test_what_is_no_call(text: str) -> None:
    assert find_calls(text, OFFERED) == []


def test_many_calls_become_one_refusal_and_take_linear_time() -> None:
    began = time.monotonic()
    for text in (
        "```search\nx\n```\n" * 60_000,
        "<tool_call>{}</tool_call>" * 40_000,
        "```search\n" * 100_000,
        "[TOOL_CALLS]" + "[{}," * 100_000,
        "[TOOL_CALLS][" * 60_000,
        "[TOOL_CALLS]a[ARGS]{}" * 40_000,
    ):
        calls = find_calls(text, OFFERED)
        assert len(calls) in (0, 1, MOST + 1)
        assert len(calls) <= 1 or "at most 32 calls" in calls[-1].problem
    assert time.monotonic() - began < 5


@settings(deadline=None, max_examples=60)
@given(
    st.text()
    | st.text(alphabet='`<>/_tolcael{}"search:\npython x').map(
        lambda t: f"<tool_call>{t}</tool_call>\n```search\n{t}\n```"
    )
)
def test_any_text_is_read_and_recorded_and_read_again(text: str) -> None:
    for call in find_calls(text, OFFERED):
        record = ToolCall(call.tool, call.arguments, "refused", call.problem)
        assert from_plain(ToolCall, json.loads(record_to_json(ToolCall, record))) == record


@settings(deadline=None, max_examples=60)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda x: st.lists(x) | st.dictionaries(st.text(), x),
        max_leaves=6,
    )
)
def test_any_arguments_are_recorded_as_they_are_or_refused(value: object) -> None:
    (call,) = find_calls(native("search", {"query": value}), OFFERED)
    record = ToolCall(call.tool, call.arguments, "refused", call.problem)
    assert from_plain(ToolCall, json.loads(record_to_json(ToolCall, record))) == record


@settings(deadline=None, max_examples=60)
@given(st.text(alphabet='`<>/_tolcael{}"python:\n xcode'))
def test_code_is_found_as_where_there_are_no_other_tools(text: str) -> None:
    only = {"python": SPEC}
    runs = [call.arguments["code"] for call in find_calls(text, only) if not call.problem]
    if "<tool_call>" not in text:
        assert ("\n\n".join(runs) if runs else None) == find_code(text)
