"""Plan, output and result of a mathematics team, parsed from its actions and evaluated exactly."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from mappa_env.coach.rubric.plans.programs import without_programs
from mappa_env.coach.rubric.plans.prose import Formula, formula_at_end
from mappa_env.coach.rubric.plans.remarks import without_remarks
from mappa_env.coach.rubric.plans.steps import heads_list, steps_in
from mappa_env.coach.rubric.plans.value import is_expression, plan_value
from mappa_env.coach.rubric.plans.writing import plainly, step_of
from mappa_env.grading.expression import Number
from mappa_env.grading.math import MathStatus, alternatives, grade_answer
from mappa_env.grading.reading import Reading, boxed, given, labelled, numbers_in, stated, symbolic, value_of
from mappa_env.grading.readings import readings
from mappa_env.types import ActionRecord, ToolResult

FORMS: tuple[MathStatus, ...] = ("too_long", "unreadable", "unevaluated")
"""Grades that lie in how an answer is written: its value may be right."""
_LONGEST = 1000
"""Characters of a plan in which labels and remarks are looked for."""
_TOLERANCE = Fraction(1, 10**6)
_COMMENT = re.compile(r"\s#.*")
_EQUALS = re.compile(r"(?<![=<>!])=(?![=>])")
_MODULE = re.compile(r"\bmath\.(?=[a-z])")
_PYTHON = re.compile(r"[0-9A-Za-z_+\-*/%(), <>=!\[\].:'\"]{1,900}")
_GLUED = re.compile(r"[0-9](?!e[0-9]|_[0-9])[A-Za-z_]|[0-9]\.[A-Za-df-z_]")  # the parser would warn of some
_NEXT_LINE = re.compile(
    r"^([ \t>#*_`\-]*plan[ \t*_`]*[:=])[ \t*_`]*\n(?:[ \t]*(?:```+[ \t]*\w*[ \t]*)?\n){0,3}"
    r"[ \t]*(?:[-*>][ \t]+)?([^\n]{1,900})$",
    re.MULTILINE | re.IGNORECASE,
)
_UNSIGNED = re.compile(r"[0-9]{1,80}(?:\.[0-9]{1,40})?")
_STEP = re.compile(
    r"^[ \t>#*\-]*\(?(?:step[ \t]*)?([0-9]{1,2})[ \t]*[.):\-](?![0-9])[ \t*]*\S", re.MULTILINE | re.IGNORECASE
)


class Statement(NamedTuple):
    """``text`` written by ``agent``; ``number`` is its exact value (None: it has none).

    ``in_steps``: it is a plan in several steps, whose value ``formula_in`` tells.
    """

    agent: str
    text: str
    number: Number | None
    in_steps: bool = False


@dataclass(frozen=True, slots=True)
class Chain:
    """The last plan, the output of the last tool run, and the last reported result; None if missing.

    ``output`` is None if the run failed or printed nothing. ``ran`` is the agent that ran code last.
    ``prose``: who planned in words, and the formula at their end.
    """

    plan: Statement | None = None
    output: Statement | None = None
    result: Statement | None = None
    ran: str | None = None
    prose: tuple[str, Formula] | None = None


def chain_of(
    history: Iterable[ActionRecord], gold: str | None = None, said: Statement | None = None
) -> Chain:
    """The chain of values after ``history``.

    ``gold``: the true answer, if it may be used. ``said``: what the next action reports the output to be.
    """
    plan = output = result = ran = tool = prose = None
    for record in history:
        if record.tool is not None:
            if ran == record.agent and tool is not None and _adds_nothing(record.tool, tool):
                continue  # a check of what it has printed
            ran, result, tool = record.agent, None, record.tool  # a report refers to the run before it
        elif ran is None:
            plan = planned_in(record.agent, record.answer) or plan
            result = result_in(record.agent, record.answer) or result
            formula = formula_in(record.answer)
            prose = prose if formula is None else (record.agent, formula)
        elif record.agent == ran:  # what others repeat about a plan or a result is not one
            result = own(report_in(record.agent, record.answer), plan) or result
        elif plan is not None and record.agent == plan.agent:  # it returns to plan again
            plan = planned_in(record.agent, record.answer) or plan
    if ran is not None and tool is not None:
        output = output_of(ran, tool, plan, gold, said or result)
    return Chain(plan, output, result, ran, prose)


def plan_in(agent: str, answer: str) -> Statement | None:
    """The last ``plan: <expression>`` line that has a value, else the last one: a heading is not a plan.

    One in several steps has none by itself: see ``formula_in``.
    """
    answer = plainly(answer[-20_000:])
    steps = steps_in(answer, python_of)
    if steps is not None:
        return Statement(agent, steps.text, None, True)
    return _said(agent, labelled(_NEXT_LINE.sub(_joined, answer), "plan", _plan_value))


def formula_in(answer: str) -> Formula | None:
    """What a plan in several steps, or in words, comes to; None: it cannot be told."""
    answer = plainly(answer[-20_000:])
    steps = steps_in(answer, python_of)
    return formula_at_end(answer) if steps is None else steps.formula


def _joined(match: re.Match[str]) -> str:
    """``plan:`` with the expression that stands below it; a method or words there stay where they are."""
    text = match[2].strip("`*_$ \t")
    if heads_list(match.string[match.string.rfind("\n", 0, match.start(2)) + 1 :]):
        return match[0]
    if _plan_value(text) is None and not is_expression(python_of(text)):
        return match[0]
    return f"{match[1]} {text}"


def _plan_value(text: str) -> Number | None:
    """The value of a Python expression, or of ``expression = value`` or ``name = expression``."""
    value = _bare_value(text)
    if value is None and len(text) <= _LONGEST and not (step := step_of(text)).changes:
        value = _bare_value(step.text)
    for said in (bare := _COMMENT.sub("", text), without_remarks(bare[:_LONGEST])):
        others = _EQUALS.split(said)[1:]
        value = value_of(others[-1]) if value is None and others else value
    return value


def _bare_value(text: str) -> Number | None:
    first = _EQUALS.split(_MODULE.sub("", _COMMENT.sub("", text)))[0]
    value = value_of(first)
    if value is None:
        value = plan_value(python_of(text)).number
    if value is None and len(text) <= _LONGEST and (bare := without_remarks(text)) != text:
        return _bare_value(bare)
    return value


def planned_in(agent: str, answer: str) -> Statement | None:
    """What an agent before the first run wants computed: its plan, else a number that it states."""
    plan, said = plan_in(agent, answer), stated_in(agent, answer)
    if plan is not None and plan.in_steps:
        return plan  # one of its steps may read like an answer
    return said if _valued(said) and not _valued(plan) else plan


def _valued(said: Statement | None) -> bool:
    return said is not None and said.number is not None


def result_in(agent: str, answer: str) -> Statement | None:
    """The last ``result: <value>`` line that has a value, else the last one; programs report nothing."""
    return _said(agent, labelled(without_programs(answer), "result"))


def report_in(agent: str, answer: str) -> Statement | None:
    """The ``result:`` line, else the answer that the text states in another form."""
    return result_in(agent, answer) or stated_in(agent, answer)


def stated_in(agent: str, answer: str) -> Statement | None:
    """The box, else the ``answer:`` line, or what "the answer is"; programs state nothing."""
    return _said(agent, stated(without_programs(answer)))


def output_of(
    agent: str,
    tool: ToolResult,
    plan: Statement | None = None,
    gold: str | None = None,
    result: Statement | None = None,
) -> Statement | None:
    """The answer in what a successful run printed. It has no value if it only tells how ``plan`` failed.

    Of the few values that it may mean, the right one counts if ``gold`` is known, else the reported
    ``result``, else the plan's, else the likeliest.
    """
    if tool.status != "ok":
        return None
    found = [said for each in readings(tool.stdout) if (said := own(_said(agent, each), plan)) is not None]
    if gold is not None and (right := next((said for said in found if is_right(said, gold)), None)):
        return right
    for meant in (result, plan):
        if meant is not None and meant.number is not None:
            for said in found:
                if same(said, meant):
                    return said
    return found[0] if found else None


def _adds_nothing(tool: ToolResult, before: ToolResult) -> bool:
    """Whether a run ended well and printed words alone, after one that printed a value."""
    if tool.status != "ok" or before.status != "ok" or not tool.stdout.strip():
        return False
    return any(each.number is not None for each in readings(before.stdout)) and all(
        each.number is None for each in readings(tool.stdout)
    )


def own(said: Statement | None, plan: Statement | None) -> Statement | None:
    """``said``, without its number if that is only part of a sentence on why ``plan`` has no value.

    So it is if the plan's text, or the exception that it raises, has that number.
    """
    if said is None or said.number is None or plan is None or failure_in(plan) is None:
        return said
    about = f"{plan.text} {plan_value(python_of(plan.text)).message}"
    quoted = abs(said.number) in {Fraction(number) for number in _UNSIGNED.findall(about)}
    return said._replace(number=None) if quoted and value_of(said.text) is None else said


def box_in(agent: str, answer: str) -> Statement | None:
    """The last box."""
    return _said(agent, boxed(answer))


def _said(agent: str, reading: Reading | None) -> Statement | None:
    return None if reading is None else Statement(agent, *reading)


def answers_of(history: Iterable[ActionRecord], gold: str | None = None) -> dict[str, Statement]:
    """Agent -> the newest answer that it has stated, or that its program has printed."""
    found = {}
    for record in history:
        said = stated_in(record.agent, record.answer)
        if record.tool is not None:
            said = output_of(record.agent, record.tool, gold=gold) or said
        if said is not None:
            found[record.agent] = said
    return found


def short(said: Statement) -> str:
    """The statement, quoted, in at most 60 characters."""
    return repr(said.text if len(said.text) <= 60 else said.text[:57] + "...")


def declined(answer: Statement) -> bool:
    """Whether an answer, such as ``none``, gives no value at all."""
    return answer.number is None and not symbolic(answer.text) and not re.search("[0-9]", answer.text)


def worded_in(agent: str, answer: str, output: Statement) -> Statement | None:
    """The number in a report in words: the one that the program printed, else the last one."""
    if output.number is not None and output.number in numbers_in(answer):
        return Statement(agent, output.text, output.number)
    return _said(agent, given(answer))


def has_steps(answer: str) -> bool:
    """Whether the text has a numbered step 1 and a step 2."""
    return {"1", "2"} <= {number.lstrip("0") for number in _STEP.findall(answer[-20_000:])}


def python_of(plan: str) -> str:
    """The expression in ``plan``, without comment, name, result and remarks; empty if it has none.

    Remarks are left out only if what is left is an expression.
    """
    found, bare = _expression_of(plan), without_remarks(plan)
    if is_expression(found) or bare == plan:
        return found
    left = _expression_of(bare)
    return left if is_expression(left) else found


def _expression_of(plan: str) -> str:
    whole = _MODULE.sub("", _COMMENT.sub("", plan)).strip()
    if is_expression(_cleaned(whole)):
        return whole
    name, *others = _EQUALS.split(whole)
    return _cleaned((others[0] if others and name.strip().isidentifier() else name).strip())


def _cleaned(source: str) -> str:
    """``source`` if the parser takes it without a warning, else nothing."""
    return source if _PYTHON.fullmatch(source) and not _GLUED.search(source) else ""


def failure_in(plan: Statement | None) -> str | None:
    """The exception that Python raises for a plan without a value, as far as the host can tell."""
    if plan is None or plan.number is not None:
        return None
    return plan_value(python_of(plan.text)).failure


def untold(plan: Statement) -> bool:
    """Whether the host can tell neither the value of a plan, an expression or steps, nor that it has none."""
    if plan.in_steps:
        return True
    source = python_of(plan.text)
    return plan.number is None and is_expression(source) and plan_value(source).failure is None


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
    values = [value_of(answer) for answer in alternatives(gold)]
    if None not in values and (said.number is not None or not symbolic(said.text)):
        # A text without a number and without symbols has no value, so it is wrong.
        return said.number is not None and any(same(said, Statement("", "", value)) for value in values)
    return grade_answer(rf"\boxed{{{said.text}}}", gold).correct
