"""The MathChat script: a solver plans, a coder computes the plan, a verifier boxes the coder's result.

Each agent relies on the one before, right or wrong, so an episode with one fault has one culprit.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from mappa_env.grading.expression import safe_value
from mappa_env.parsing import last_boxed
from mappa_env.scripted.base import Act, FaultPlan
from mappa_env.scripted.math_actions import (
    BOX_FAULTS,
    FORMULA_FAULTS,
    NONE,
    RUN_FAULTS,
    box,
    code,
    expr_of,
    formula,
    miscopied,
    misreported,
    printed,
    worded,
)
from mappa_env.types import ActionRecord, Task

_PLAN = re.compile(r"^[ \t]*plan:[ \t]*(.+)$", re.MULTILINE | re.IGNORECASE)
_RESULT = re.compile(r"^[ \t]*result:[ \t]*(.+)$", re.MULTILINE | re.IGNORECASE)


class MathChatScript:
    """See the module. For tasks without ``meta["expr"]`` (real contest problems), it works from the gold."""

    faults: Mapping[str, tuple[str, ...]] = {
        "solver": FORMULA_FAULTS,
        "coder": ("wrong_operator", "wrong_digit", *RUN_FAULTS, "miscopied_result"),
        "verifier": BOX_FAULTS,
    }

    def act(self, act: Act) -> str:
        """See ``Script.act``."""
        if act.role == "solver":
            return plan(act)
        if act.role == "coder":
            return compute(act)
        text = _VERIFIER if act.style == "full" else "answer: {answer}"
        text = text.format(answer=box(act.task, handed_on(act.history), act.fault, act.rng))
        assert act.fault != "no_box" or last_boxed(text) is None
        return text


_SOLVER = (
    "One expression gives the answer, so no search is needed. Please evaluate it exactly as "
    "written and print the value."
)
_VERIFIER = (
    "I compared the method, the code and its output, and I agree with the reported result.\n"
    "The answer is {answer}."
)


def plan(act: Act) -> str:
    """The solver's action."""
    return worded(act.style, f"plan: {formula(act.task, act.fault, act.rng)}", _SOLVER)


def compute(act: Act) -> str:
    """The coder's action: code for the plan that reached it, then its report."""
    task, fault, rng = act.task, act.fault, act.rng
    if act.own:
        value = printed(act.own[-1])
        value = misreported(task, value, rng) if fault == "miscopied_result" else value
        return worded(act.style, f"result: {value}", "The code printed this value.")
    expr = miscopied(task, _planned(task, act.history), fault, rng)
    words = "I evaluate the Problem Solver's expression exactly as written.\n"
    return worded(act.style, code(expr, fault), words)


def handed_on(history: Sequence[ActionRecord]) -> str:
    """The last result in ``history``: a report, else what code printed."""
    for record in reversed(history):
        found = _RESULT.findall(record.answer)
        if found:
            return str(found[-1]).strip()
    outputs = [r.tool.stdout.strip() for r in history if r.tool is not None and r.tool.stdout.strip()]
    return outputs[-1].split("\n")[-1].strip() if outputs else NONE


def plan_in(history: Sequence[ActionRecord]) -> str:
    """The last plan in ``history``; empty: there is none."""
    found = [text for record in history for text in _PLAN.findall(record.answer)]
    return found[-1].strip().strip("`") if found else ""


def _planned(task: Task, history: Sequence[ActionRecord]) -> str:
    """The plan that reached the coder; the task's own expression if that is unusable."""
    found = plan_in(history)
    if safe_value(found) is not None or (found and "expr" not in task.meta):
        return found
    return expr_of(task)


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
