"""What scripted agents write about a mathematics problem: a formula, code that prints it, a boxed answer.

Each function takes the fault to commit; one that it does not know changes nothing.
"""

from __future__ import annotations

import re

import numpy as np

from mappa_env.grading.expression import Number, safe_value
from mappa_env.grading.math import alternatives
from mappa_env.scripted.base import Style
from mappa_env.scripted.mutate import wrong_digit, wrong_operator
from mappa_env.types import ActionRecord, Task

FORMULA_FAULTS = ("wrong_formula", "wrong_operator", "wrong_digit")
RUN_FAULTS = ("no_print", "crash", "no_fence")
BOX_FAULTS = ("no_box", "miscopied", "boxes_problem_number")
NONE = "none"
"""What an honest agent reports when it got no result."""
_NUMBER = re.compile(r"[0-9]+")


def worded(style: Style, bare: str, words: str) -> str:
    """``bare``, with ``words`` on the line before it where prompts are full."""
    return f"{words}\n{bare}" if style == "full" else bare


def answer_of(task: Task) -> str:
    """The task's gold as an agent would write it."""
    return alternatives(str(task.truth["answer"]))[0]


def gold_of(task: Task) -> Number | None:
    """The value of the gold; None if it has none."""
    return safe_value(answer_of(task))


def expr_of(task: Task) -> str:
    """An expression with the value of the gold; the gold itself for tasks without ``meta["expr"]``."""
    return str(task.meta.get("expr") or answer_of(task))


def formula(task: Task, fault: str | None, rng: np.random.Generator) -> str:
    """The expression that answers the task. A fault of ``FORMULA_FAULTS`` always changes its value.

    A fault that does not apply becomes a wrong digit.
    """
    expr, avoid = expr_of(task), {gold_of(task)}
    wrong: str | None = expr
    if fault == "wrong_formula":
        wrong = task.meta.get("misconception") or wrong_operator(expr, avoid)
    elif fault == "wrong_operator":
        wrong = wrong_operator(expr, avoid)
    elif fault == "wrong_digit":
        wrong = None
    return wrong or wrong_digit(expr, avoid, rng)


def miscopied(task: Task, expr: str, fault: str | None, rng: np.random.Generator) -> str:
    """``expr`` as an agent copies it: with a wrong operator or digit if that is the fault."""
    avoid = {gold_of(task), safe_value(expr)}
    if fault == "wrong_operator":
        return wrong_operator(expr, avoid) or wrong_digit(expr, avoid, rng)
    return wrong_digit(expr, avoid, rng) if fault == "wrong_digit" else expr


def code(expr: str, fault: str | None) -> str:
    """A fenced script that prints ``expr``, which is run only if it is plain arithmetic."""
    value = expr if safe_value(expr) is not None else repr(expr)
    verb = {"no_print": "", "crash": "prnt"}.get(fault or "", "print")
    line = f"{verb}({value})" if verb else value
    script = f"from math import *\n{line}" if re.search(r"[a-z]\(", value) else line
    return script if fault == "no_fence" else f"```python\n{script}\n```"


def printed(last: ActionRecord) -> str:
    """The last line that the code of ``last`` printed; ``NONE`` if it failed or printed nothing."""
    lines = last.tool.stdout.split("\n") if last.tool is not None and last.tool.status == "ok" else []
    return next((line.strip()[:80] for line in reversed(lines) if line.strip()), NONE)


def misreported(task: Task, value: str, rng: np.random.Generator) -> str:
    """``value`` with a wrong digit, unless there is none."""
    return value if value == NONE else wrong_digit(value, {gold_of(task), safe_value(value)}, rng)


def box(task: Task, result: str, fault: str | None, rng: np.random.Generator) -> str:
    """The box with ``result``; a fault of ``BOX_FAULTS`` leaves it out or puts something else in."""
    if fault == "no_box":
        return result
    if fault == "miscopied":
        return rf"\boxed{{{misreported(task, result, rng)}}}"
    if fault == "boxes_problem_number":
        numbers = _NUMBER.findall(task.compact or task.prompt)
        other = next((n for n in numbers if safe_value(n) != gold_of(task) and n != result), None)
        return rf"\boxed{{{other or wrong_digit(answer_of(task), {gold_of(task)}, rng)}}}"
    return rf"\boxed{{{result}}}"
