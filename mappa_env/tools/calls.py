"""The tool calls in an action: in a chat template's format, or fences with the name of a tool."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from mappa_env.errors import nearest
from mappa_env.native_calls import native_calls
from mappa_env.parsing import fences, utf8
from mappa_env.tools.base import ToolSpec
from mappa_env.tools.python import PYTHON

MOST = 32
"""Calls of one action that are looked at; the others are refused together."""
_PYTHON = {"py": PYTHON, "python3": PYTHON}
_DEEPEST = 16
_KINDS: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}


class Written(NamedTuple):
    """A call as the agent wrote it. ``problem`` says why it cannot be carried out; empty: it can."""

    tool: str
    arguments: Mapping[str, Any]
    problem: str = ""


def find_calls(answer: str, offered: Mapping[str, ToolSpec], others: tuple[str, ...] = ()) -> list[Written]:
    """The calls in ``answer``, in order. Never raises.

    ``offered``: what the agent may call. ``others``: tools of the card that it may not; a fence with another
    name is no call. If there is a call in a chat template's format, only such calls count.
    """
    known = {name.lower(): name for name in (*others, *offered)} | {
        alias: name for alias, name in _PYTHON.items() if name in offered or name in others
    }
    found = [_native(call, known, offered) for call in native_calls(answer, MOST + 1)]
    if not found:
        found = [
            _fence(known[tag], body, offered) for tag, body in fences(answer, known.keys(), most=MOST + 1)
        ]
    if len(found) > MOST:
        found[MOST:] = [Written("", {}, f"an action has at most {MOST} calls; the others were left out.")]
    return found


def arguments_problem(arguments: Mapping[str, Any], spec: ToolSpec) -> str:
    """What keeps ``arguments`` from fitting ``spec``; empty if they do.

    Looks at names and plain types: whatever else a schema says, the tool has to check itself.
    """
    properties = spec.properties
    for name in spec.required:
        if name not in arguments:
            return f"the argument {name!r} is missing."
    for name, value in arguments.items():
        schema = properties.get(name)
        if schema is None and not spec.parameters.get("additionalProperties"):
            listed = ", ".join(properties) or "none"
            return f"unknown argument {name[:80]!r}; it takes {listed}.{nearest(name[:80], properties)}"
        kind = schema.get("type") if isinstance(schema, Mapping) else None
        wanted = [kind] if isinstance(kind, str) else kind if isinstance(kind, list) else []
        if wanted and not any(_is(value, str(each)) for each in wanted):
            return f"the argument {name[:80]!r} must be of type {' or '.join(map(str, wanted))[:80]}."
    return ""


def _native(call: object, known: Mapping[str, str], offered: Mapping[str, ToolSpec]) -> Written:
    try:
        call = _clean(call)
    except ValueError:
        call = None
    name = call.get("name") if isinstance(call, dict) else None
    arguments = call.get("arguments", {}) if isinstance(call, dict) else None
    if not isinstance(name, str) or not isinstance(arguments, dict):
        form = '{"name": "...", "arguments": {...}}'
        return Written("", {}, f"this call is not a JSON object of the form {form}.")
    return _checked(known.get(name.lower(), name[:80]), arguments, offered)


def _fence(name: str, body: str, offered: Mapping[str, ToolSpec]) -> Written:
    spec = offered.get(name)
    argument = spec.only_text if spec is not None else "text"
    if argument:
        return _checked(name, {argument: body}, offered)
    arguments = _json(body)
    if not isinstance(arguments, dict):
        return Written(name, {"text": body}, "the fence must hold a JSON object with the arguments.")
    return _checked(name, arguments, offered)


def _checked(name: str, arguments: Mapping[str, Any], offered: Mapping[str, ToolSpec]) -> Written:
    if name in offered:
        problem = arguments_problem(arguments, offered[name])
    else:
        problem = f"you may not use {name!r}; your tools are {', '.join(offered)}.{nearest(name, offered)}"
    return Written(name, arguments, problem)


def _json(text: str) -> Any:
    """The value, with clean texts; None if it is not JSON that can be recorded and read again."""
    try:
        return _clean(json.loads(text))
    except (ValueError, RecursionError):
        return None


def _clean(value: Any, depth: int = 0) -> Any:
    """``value`` without lone surrogates. Raises ValueError for deep nesting and for what JSON cannot hold."""
    if depth > _DEEPEST:
        raise ValueError("too deep")
    if isinstance(value, str):
        return utf8(value)
    if isinstance(value, dict):
        return {utf8(name): _clean(item, depth + 1) for name, item in value.items()}
    if isinstance(value, list):
        return [_clean(item, depth + 1) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("not a number of JSON")
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise ValueError("too large")
    return value


def _is(value: Any, kind: str) -> bool:
    if isinstance(value, bool) and kind in ("integer", "number"):
        return False
    return isinstance(value, _KINDS.get(kind, (object,)))
