"""The MathChat script: a solver plans, a coder computes the plan, a verifier boxes the coder's result.

Each agent relies on the one before, right or wrong, so an episode with one fault has one culprit.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np

from mappa_env.grading.expression import Number, safe_value
from mappa_env.grading.math import alternatives
from mappa_env.parsing import last_boxed
from mappa_env.scripted.base import Act, FaultPlan, Style
from mappa_env.scripted.mutate import wrong_digit, wrong_operator
from mappa_env.types import ActionRecord, Task

_PLAN = re.compile(r"^[ \t]*plan:[ \t]*(.+)$", re.MULTILINE | re.IGNORECASE)
_RESULT = re.compile(r"^[ \t]*result:[ \t]*(.+)$", re.MULTILINE | re.IGNORECASE)
_NUMBER = re.compile(r"[0-9]+")
_NONE = "none"
"""What an honest agent reports when it got no result."""


class MathChatScript:
    """See the module. For tasks without ``meta["expr"]`` (real contest problems), it works from the gold."""

    faults: Mapping[str, tuple[str, ...]] = {
        "solver": ("wrong_formula", "wrong_operator", "wrong_digit"),
        "coder": ("wrong_operator", "wrong_digit", "no_print", "crash", "no_fence", "miscopied_result"),
        "verifier": ("no_box", "miscopied", "boxes_problem_number"),
    }

    def act(self, act: Act) -> str:
        """See ``Script.act``."""
        task, style, fault, rng = act.task, act.style, act.fault, act.rng
        if act.role == "solver":
            return _text(_SOLVER, style).format(plan=_plan(task, fault, rng))
        if act.role == "coder":
            if act.turn == 0 or not act.own:
                return _code(act, _planned(task, act.history))
            return _text(_RESULTS, style).format(result=_report(task, act.own[-1], fault, rng))
        return _closing(act, _handed_on(act.history))


_SOLVER = {
    "bare": "plan: {plan}",
    "full": "One expression gives the answer, so no search is needed. Please evaluate it exactly as "
    "written and print the value.\nplan: {plan}",
}
_CODER = {
    "bare": "{code}",
    "full": "I evaluate the Problem Solver's expression exactly as written.\n\n{code}",
}
_RESULTS = {
    "bare": "result: {result}",
    "full": "The code printed this value.\nresult: {result}",
}
_VERIFIER = {
    "bare": "answer: {answer}",
    "full": "I compared the method, the code and its output, and I agree with the reported result.\n"
    "The answer is {answer}.",
}


def _text(texts: Mapping[str, str], style: Style) -> str:
    return texts["full" if style == "full" else "bare"]


def _plan(task: Task, fault: str | None, rng: np.random.Generator) -> str:
    """The solver's expression. A fault that does not apply becomes a wrong digit."""
    expr, avoid = _expr(task), {_gold(task)}
    wrong: str | None = expr
    if fault == "wrong_formula":
        wrong = task.meta.get("misconception") or wrong_operator(expr, avoid)
    elif fault == "wrong_operator":
        wrong = wrong_operator(expr, avoid)
    elif fault == "wrong_digit":
        wrong = None
    return wrong or wrong_digit(expr, avoid, rng)


def _planned(task: Task, history: Sequence[ActionRecord]) -> str:
    """The plan that reached the coder; the task's own expression if that is unusable."""
    found = [plan for record in history for plan in _PLAN.findall(record.answer)]
    plan = found[-1].strip().strip("`") if found else ""
    if safe_value(plan) is not None or (plan and "expr" not in task.meta):
        return plan
    return _expr(task)


def _code(act: Act, plan: str) -> str:
    task, fault, rng = act.task, act.fault, act.rng
    avoid = {_gold(task), safe_value(plan)}
    if fault == "wrong_operator":
        plan = wrong_operator(plan, avoid) or wrong_digit(plan, avoid, rng)
    elif fault == "wrong_digit":
        plan = wrong_digit(plan, avoid, rng)
    value = plan if safe_value(plan) is not None else repr(plan)
    verb = {"no_print": "", "crash": "prnt"}.get(fault or "", "print")
    line = f"{verb}({value})" if verb else value
    script = f"from math import *\n{line}" if re.search(r"[a-z]\(", value) else line
    if fault == "no_fence":
        return _text(_CODER, act.style).format(code=script)
    return _text(_CODER, act.style).format(code=f"```python\n{script}\n```")


def _report(task: Task, last: ActionRecord, fault: str | None, rng: np.random.Generator) -> str:
    """The coder's final report: the last line that its code printed."""
    lines = last.tool.stdout.split("\n") if last.tool is not None and last.tool.status == "ok" else []
    printed = next((line.strip()[:80] for line in reversed(lines) if line.strip()), _NONE)
    if fault == "miscopied_result" and printed != _NONE:
        return wrong_digit(printed, {_gold(task), safe_value(printed)}, rng)
    return printed


def _handed_on(history: Sequence[ActionRecord]) -> str:
    """The result that reached the verifier: the coder's report, else its code's output."""
    for record in reversed(history):
        found = _RESULT.findall(record.answer)
        if found:
            return str(found[-1]).strip()
    printed = [r.tool.stdout.strip() for r in history if r.tool is not None and r.tool.stdout.strip()]
    return printed[-1].split("\n")[-1].strip() if printed else _NONE


def _closing(act: Act, result: str) -> str:
    task, fault, rng = act.task, act.fault, act.rng
    answer = rf"\boxed{{{result}}}"
    if fault == "no_box":
        answer = result
    elif fault == "miscopied" and result != _NONE:
        answer = rf"\boxed{{{wrong_digit(result, {_gold(task), safe_value(result)}, rng)}}}"
    elif fault == "boxes_problem_number":
        numbers = _NUMBER.findall(task.compact or task.prompt)
        other = next((n for n in numbers if safe_value(n) != _gold(task) and n != result), None)
        answer = rf"\boxed{{{other or wrong_digit(_answer(task), {_gold(task)}, rng)}}}"
    text = _text(_VERIFIER, act.style).format(answer=answer)
    assert fault != "no_box" or last_boxed(text) is None
    return text


def _answer(task: Task) -> str:
    """The task's gold as an agent would write it."""
    return alternatives(str(task.truth["answer"]))[0]


def _expr(task: Task) -> str:
    return str(task.meta.get("expr") or _answer(task))


def _gold(task: Task) -> Number | None:
    return safe_value(_answer(task))


SCRIPT = MathChatScript()

HABIT = 0.75
FAULTY = FaultPlan(
    rates={"solver": 0.1, "coder": 0.1, "verifier": 0.1},
    usual={
        ("linear", "solver"): ("wrong_formula", HABIT),
        ("linear", "verifier"): ("no_box", HABIT),
        ("counting", "solver"): ("wrong_formula", HABIT),
        ("counting", "coder"): ("no_print", HABIT),
        ("sequence", "solver"): ("wrong_formula", HABIT),
        ("sequence", "coder"): ("crash", HABIT),
        ("sequence", "verifier"): ("boxes_problem_number", HABIT),
        ("number_theory", "coder"): ("no_fence", HABIT),
        ("number_theory", "verifier"): ("no_box", HABIT),
    },
)
"""The faulty team: on four of the nine topics, nine of the 27 (topic, role) pairs have a usual fault."""
