"""Tool calls as chat templates have models write them: Qwen's and Hermes's, Mistral's, Llama's."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice

OPEN, CLOSE = "<tool_call>", "</tool_call>"
MISTRAL, ARGUMENTS = "[TOOL_CALLS]", "[ARGS]"
LLAMA = "<|python_tag|>"
MARKS = (OPEN, CLOSE, MISTRAL, ARGUMENTS, "[CALL_ID]", LLAMA)
"""What marks a call; some tokenizers declare these special."""
_DECODER = json.JSONDecoder()


def native_calls(answer: str, most: int | None = None) -> list[object]:
    """The calls in ``answer``, at most ``most``: ``{"name": ..., "arguments": ...}`` each, if well-formed.

    One that is not JSON is None. All are of the first of these forms of which there is a complete one:
    ``<tool_call>`` blocks with a call or a list of calls (Qwen, Hermes, SmolLM2); ``[TOOL_CALLS]`` with a
    list or with ``name[ARGS]{...}`` (Mistral); an answer that is nothing but ``{"name": ...,
    "parameters": ...}`` (Llama). Takes linear time.
    """
    for form in (_tagged, _mistral, _llama):
        if found := list(islice(form(answer), most)):
            return found
    return []


def _tagged(answer: str) -> Iterator[object]:
    at = 0
    while (opened := answer.find(OPEN, at)) != -1:
        start = opened + len(OPEN)
        closed = answer.find(CLOSE, start)
        if closed == -1:
            return
        yield from _each(_json(answer[start:closed].strip()))
        at = closed + len(CLOSE)


def _mistral(answer: str) -> Iterator[object]:
    for piece in answer.split(MISTRAL)[1:]:
        name, called, arguments = piece.partition(ARGUMENTS)
        if piece.lstrip().startswith(("[", "{")):
            yield from _each(_json(piece.lstrip(), more=True))
        elif called:
            name = name.partition("[CALL_ID]")[0].strip()
            yield {"name": name, "arguments": _json(arguments.lstrip(), more=True)}


def _llama(answer: str) -> Iterator[object]:
    text = answer.strip().removeprefix(LLAMA).strip()
    call = _json(text) if text.startswith("{") else None
    if isinstance(call, dict) and {"name", "parameters"} <= call.keys() <= {"type", "name", "parameters"}:
        yield {"name": call["name"], "arguments": call["parameters"]}


def _each(value: object) -> Iterator[object]:
    yield from value if isinstance(value, list) else [value]


def _json(text: str, *, more: bool = False) -> object:
    """The JSON value in ``text``, which may be followed by ``more``; None if there is none."""
    try:
        value, end = _DECODER.raw_decode(text)
    except (ValueError, RecursionError):
        return None
    return value if more or not text[end:].strip() else None
