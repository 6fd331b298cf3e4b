"""Plan, output and result of a mathematics team, parsed from its actions and evaluated exactly."""

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


class Statement(NamedTuple):
    """``text`` written by ``agent``; ``number`` is its exact value (None: it has none)."""

    agent: str
    text: str
    number: Number | None


@dataclass(frozen=True, slots=True)
class Chain:
    """The last plan, the output of the last tool run, and the last reported result; None if missing.

    ``output`` is None if the run failed or printed nothing. ``ran`` is the agent that ran code last.
    """

    plan: Statement | None = None
    output: Statement | None = None
    result: Statement | None = None
    ran: str | None = None


def chain_of(history: Iterable[ActionRecord]) -> Chain:
    """The chain of values after ``history``."""
    plan = output = result = ran = None
    for record in history:
        if record.tool is not None:
            ran, result = record.agent, None  # a report refers to the run before it
            output = output_of(record.agent, record.tool)
        elif ran is None:
            plan = plan_in(record.agent, record.answer) or plan
            result = result_in(record.agent, record.answer) or result
        elif record.agent == ran:  # what others repeat about a plan or a result is not one
            result = result_in(record.agent, record.answer) or result
    return Chain(plan, output, result, ran)


def plan_in(agent: str, answer: str) -> Statement | None:
    """The last ``plan: <expression>`` line that has a value, else the last one: a heading is not a plan."""
    found = [text.strip().strip("`*. ") for text in _PLAN.findall(answer)]
    return _last_with_value([Statement(agent, text, safe_value(text)) for text in found])


def result_in(agent: str, answer: str) -> Statement | None:
    """The last ``result: <value>`` line that has a value, else the last one."""
    found = _RESULT.findall(answer)
    return _last_with_value([Statement(agent, text.strip("`*. "), number_in(text)) for text in found])


def _last_with_value(found: list[Statement]) -> Statement | None:
    valued = [said for said in found if said.number is not None] or found
    return valued[-1] if valued else None


def output_of(agent: str, tool: ToolResult) -> Statement | None:
    """The last line that a successful run printed."""
    lines = tool.stdout.strip().splitlines() if tool.status == "ok" else []
    return Statement(agent, lines[-1].strip()[-200:], number_in(lines[-1])) if lines else None


def number_in(text: str) -> Number | None:
    """The value of a short text: of the whole text, else of its last number; None if it has none."""
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


def same(a: Statement, b: Statement) -> bool:
    """Whether two statements have equal numbers, or equal texts if one has no number.

    Integers must be equal; other numbers may differ by one in a million.
    """
    if a.number is None or b.number is None:
        return a.text == b.text
    if isinstance(a.number, int) and isinstance(b.number, int):
        return a.number == b.number
    x, y = Fraction(a.number), Fraction(b.number)
    return abs(x - y) <= _TOLERANCE * (1 + abs(x))


def is_right(said: Statement, gold: str) -> bool:
    """Whether the statement is one of the accepted answers. Takes at most two seconds on any text."""
    values = [safe_value(answer) for answer in alternatives(gold)]
    if None not in values:  # a text without a number has no digit, so it is wrong
        return said.number is not None and any(same(said, Statement("", "", value)) for value in values)
    text = said.text if said.number is None else str(said.number)
    return grade_answer(rf"\boxed{{{text}}}", gold).correct
