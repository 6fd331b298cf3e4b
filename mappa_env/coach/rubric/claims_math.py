"""What a mathematics team has said so far: plan, output, result. Read from actions, valued exactly."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from mappa_env.grading.expression import Number, safe_value
from mappa_env.grading.math import alternatives, grade_answer
from mappa_env.types import ActionRecord, ToolResult

_PLAN = re.compile(r"^[ \t*]*plan:[ \t*]*(\S[^\n]*)$", re.MULTILINE | re.IGNORECASE)
_RESULT = re.compile(r"^[ \t*]*result:[ \t*]*(\S[^\n]*)$", re.MULTILINE | re.IGNORECASE)
_NUMBER = re.compile(r"(?<![0-9.])-?[0-9]{1,80}(?:\.[0-9]{1,40}|/[0-9]{1,40})?(?![0-9])")
_THOUSANDS = re.compile(r"(?<=[0-9]),(?=[0-9]{3}(?![0-9]))")
_TOLERANCE = Fraction(1, 10**6)


class Said(NamedTuple):
    """``text`` as said by ``agent``; ``number`` is its exact value (None: it has none)."""

    agent: str
    text: str
    number: Number | None


@dataclass(frozen=True, slots=True)
class Chain:
    """The last plan, the output of the last tool run, and the last reported result; None: there is none.

    An ``output`` of a run that failed or printed nothing is None. ``ran`` names who ran code last.
    """

    plan: Said | None = None
    output: Said | None = None
    result: Said | None = None
    ran: str | None = None


def chain_of(history: Iterable[ActionRecord]) -> Chain:
    plan = output = result = ran = None
    for record in history:
        plan = plan_in(record.agent, record.answer) or plan
        if record.tool is not None:
            ran, result = record.agent, None  # a report speaks of the run before it
            output = output_of(record.agent, record.tool)
        else:
            result = result_in(record.agent, record.answer) or result
    return Chain(plan, output, result, ran)


def plan_in(agent: str, answer: str) -> Said | None:
    """The last ``plan: <expression>`` line."""
    found = _PLAN.findall(answer)
    text = found[-1].strip().strip("`*. ") if found else ""
    return Said(agent, text, safe_value(text)) if found else None


def result_in(agent: str, answer: str) -> Said | None:
    """The last ``result: <value>`` line."""
    found = _RESULT.findall(answer)
    return Said(agent, found[-1].strip("`*. "), number_in(found[-1])) if found else None


def output_of(agent: str, tool: ToolResult) -> Said | None:
    """The last line that a successful run printed."""
    lines = tool.stdout.strip().splitlines() if tool.status == "ok" else []
    return Said(agent, lines[-1].strip()[-200:], number_in(lines[-1])) if lines else None


def number_in(text: str) -> Number | None:
    """The value of a short text: of the whole, else of its last number."""
    text = _THOUSANDS.sub("", text.strip().strip("`*$. ")[-200:])
    value = safe_value(text)
    if value is not None:
        return value
    found = _NUMBER.findall(text)
    return _fraction(found[-1]) if found else None


def _fraction(text: str) -> Number | None:
    try:
        value = Fraction(text)
    except ZeroDivisionError:
        return None
    return int(value) if value.denominator == 1 else value


def same(a: Said, b: Said) -> bool:
    """Equal numbers (to one in a million unless both are whole), or equal texts where one has no number."""
    if a.number is None or b.number is None:
        return a.text == b.text
    if isinstance(a.number, int) and isinstance(b.number, int):
        return a.number == b.number
    x, y = Fraction(a.number), Fraction(b.number)
    return abs(x - y) <= _TOLERANCE * (1 + abs(x))


def is_right(said: Said, gold: str) -> bool:
    """Whether what was said is one of the accepted answers. Takes at most two seconds on any text."""
    values = [safe_value(answer) for answer in alternatives(gold)]
    if None not in values:  # and what has no number has no digit, so it cannot be right
        return said.number is not None and any(same(said, Said("", "", value)) for value in values)
    text = said.text if said.number is None else str(said.number)
    return grade_answer(rf"\boxed{{{text}}}", gold).correct
