"""Actions as text: thinking blocks, tool calls, fences, boxed answers. Linear time on any string."""

from __future__ import annotations

import json
import re
from typing import NamedTuple

MAX_ACTION_CHARS = 1_000_000
_LANGUAGES = frozenset({"python", "py", "python3"})
_OPEN, _CLOSE = "<think>", "</think>"
_BRACE = re.compile(r"\\boxed *\{|[{}]")
_CALL_OPEN, _CALL_CLOSE = "<tool_call>", "</tool_call>"


class Action(NamedTuple):
    """A parsed action: ``code`` is None when it makes no tool call."""

    text: str
    thinking: str
    answer: str
    code: str | None


def parse(text: str, *, tools: bool = True) -> Action:
    """Split any text into thinking and answer and find its code. Never raises.

    Text beyond MAX_ACTION_CHARS is cut (and said so in the text); what UTF-8 cannot hold becomes ``?``.
    """
    if not text.isascii():
        text = text.encode("utf-8", "replace").decode("utf-8")
    if len(text) > MAX_ACTION_CHARS:
        cut = len(text) - MAX_ACTION_CHARS
        text = f"{text[:MAX_ACTION_CHARS]}\n[{cut} characters of this action were cut]"
    thinking, answer = split_thinking(text)
    return Action(text, thinking, answer, find_code(answer) if tools else None)


def split_thinking(text: str) -> tuple[str, str]:
    """Return (thinking, answer). A block left open swallows the rest; a lone ``</think>`` closes one that
    the chat template opened, so all before it is thinking."""
    if "think>" not in text:
        return "", text
    thoughts, answer, rest = [], [], text
    first_close, first_open = text.find(_CLOSE), text.find(_OPEN)
    if first_close != -1 and (first_open == -1 or first_close < first_open):
        thoughts.append(text[:first_close])
        rest = text[first_close + len(_CLOSE) :]
    while True:
        before, opened, after = rest.partition(_OPEN)
        answer.append(before)
        if not opened:
            break
        thought, closed, rest = after.partition(_CLOSE)
        thoughts.append(thought)
        if not closed:
            break
    return "\n".join(thoughts).strip(), "".join(answer).replace(_CLOSE, "").strip()


def find_code(answer: str) -> str | None:
    """The code an answer asks to run: its ``<tool_call>`` blocks, else its closed ``python`` fences, joined
    in order into one script. None when there is neither."""
    blocks = _tool_calls(answer) if _CALL_OPEN in answer else []
    if not blocks and "```" in answer:
        blocks = _fences(answer)
    return "\n\n".join(blocks) if blocks else None


def _tool_calls(answer: str) -> list[str]:
    codes: list[str] = []
    rest = answer
    while True:
        _, opened, rest = rest.partition(_CALL_OPEN)
        body, closed, rest = rest.partition(_CALL_CLOSE)
        if not opened or not closed:
            return codes
        try:
            call = json.loads(body)
        except (ValueError, RecursionError):
            continue  # not JSON: not a call
        arguments = call.get("arguments") if isinstance(call, dict) else None
        if isinstance(arguments, dict) and isinstance(arguments.get("code"), str):
            codes.append(arguments["code"])


def _fences(answer: str) -> list[str]:
    """Closed ```` ```python ```` fences, line by line: a regular expression can be made quadratic."""
    blocks: list[str] = []
    block: list[str] | None = None
    skipping = False
    for line in answer.split("\n"):
        mark = line.strip()
        if block is not None:
            if mark == "```":
                blocks.append("\n".join(block))
                block = None
            else:
                block.append(line)
        elif skipping:
            skipping = mark != "```"
        elif mark.startswith("```"):
            language = mark[3:].strip().lower()
            if language in _LANGUAGES:
                block = []
            else:
                skipping = "```" not in mark[3:]
    return blocks


def last_boxed(text: str) -> str | None:
    r"""Content of the last ``\boxed{...}`` with balanced braces, or None."""
    last = None
    opened: list[tuple[int, int]] = []  # (start of the box, -1 for a plain brace; start of the content)
    for brace in _BRACE.finditer(text):
        if brace.group() != "}":
            opened.append((brace.start() if len(brace.group()) > 1 else -1, brace.end()))
        elif opened:
            box, content = opened.pop()
            if box != -1 and (last is None or box > last[0]):
                last = (box, content, brace.start())
    return None if last is None else text[last[1] : last[2]]
