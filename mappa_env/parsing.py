"""Parses actions: thinking blocks, tool calls, fences, boxed answers. Takes linear time on any string."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import NamedTuple

from mappa_env.native_calls import native_calls

MAX_ACTION_CHARS = 1_000_000
_LANGUAGES = frozenset({"python", "py", "python3"})
_OPEN, _CLOSE = "<think>", "</think>"
_BRACE = re.compile(r"\\boxed *\{|[{}]")


class Action(NamedTuple):
    """A parsed action. ``code`` is None if it makes no tool call."""

    text: str
    thinking: str
    answer: str
    code: str | None


def parse(text: str, *, tools: bool = True) -> Action:
    """Split any text into thinking and answer and find its code. Never raises.

    Truncates the text to MAX_ACTION_CHARS, with a note in it, and replaces what UTF-8 cannot encode by ``?``.
    """
    text = utf8(text)
    if len(text) > MAX_ACTION_CHARS:
        cut = len(text) - MAX_ACTION_CHARS
        text = f"{text[:MAX_ACTION_CHARS]}\n[{cut} characters of this action were cut]"
    thinking, answer = split_thinking(text)
    return Action(text, thinking, answer, find_code(answer) if tools else None)


def split_thinking(text: str) -> tuple[str, str]:
    """Return (thinking, answer).

    An unclosed block extends to the end. A lone ``</think>`` closes a block that the chat template opened, so
    all text before it is thinking.
    """
    if "think>" not in text:
        return "", text
    thoughts, answer, at = [], [], 0  # positions: copying the remainder each time would be quadratic
    opened, closed = text.find(_OPEN), text.find(_CLOSE)
    if closed != -1 and not 0 <= opened < closed:
        thoughts.append(text[:closed])
        at = closed + len(_CLOSE)
    while (opened := text.find(_OPEN, at)) != -1:
        answer.append(text[at:opened])
        start = opened + len(_OPEN)
        closed = text.find(_CLOSE, start)
        if closed == -1:
            closed = len(text)
        thoughts.append(text[start:closed])
        at = closed + len(_CLOSE)
    answer.append(text[at:])
    return "\n".join(thoughts).strip(), "".join(answer).replace(_CLOSE, "").strip()


def find_code(answer: str) -> str | None:
    """The code that an answer asks to run, as one script; None if there is none.

    Joins the calls in a chat template's format or, without any, the closed ``python`` fences, in order.
    """
    blocks = [code for call in native_calls(answer) if (code := _code_of(call)) is not None]
    if not blocks:
        blocks = [body for _, body in fences(answer, _LANGUAGES)]
    return joined(blocks)


def joined(blocks: list[str]) -> str | None:
    """Blocks of code as one script; None if there are none."""
    return "\n\n".join(blocks) if blocks else None


def fences(answer: str, tags: Collection[str], most: int | None = None) -> Iterator[tuple[str, str]]:
    """(tag, text) of closed fences such as ```` ```python ```` whose tag, in lower case, is in ``tags``.

    Line by line: a regular expression could be quadratic.
    """
    if "```" not in answer:
        return
    block: list[str] | None = None
    tag, skipping, found = "", False, 0
    for line in answer.split("\n"):
        mark = line.strip()
        if block is not None:
            if mark == "```":
                yield tag, "\n".join(block)
                block, found = None, found + 1
                if found == most:
                    return
            else:
                block.append(line)
        elif skipping:
            skipping = mark != "```"
        elif mark.startswith("```"):
            tag = mark[3:].strip().lower()
            if tag in tags:
                block = []
            else:
                skipping = "```" not in mark[3:]


def in_fence(line: str, before: bool) -> bool:
    """Whether what follows ``line`` is in a code fence; ``before``: whether the line itself is.

    A line such as ```` ```x``` is done ```` opens none.
    """
    mark = line.strip()
    return mark != "```" if before else mark.startswith("```") and "```" not in mark[3:]


def utf8(text: str) -> str:
    """``text`` with ``?`` for what UTF-8 cannot encode; JSON can spell lone surrogates."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def _code_of(call: object) -> str | None:
    arguments = call.get("arguments") if isinstance(call, dict) else None
    code = arguments.get("code") if isinstance(arguments, dict) else None
    return utf8(code) if isinstance(code, str) else None


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
