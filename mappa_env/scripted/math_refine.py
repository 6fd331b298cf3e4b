"""The script of an author who computes and boxes an answer, and a reviewer who accepts it or sends it back.

An author whose answer is sent back keeps it if it has committed no fault, else it computes what the reviewer
plans. A ``stubborn`` author keeps a wrong formula against every review. ``accepts_all`` shows only where an
answer is wrong.
"""

from __future__ import annotations

import dataclasses

from mappa_env.grading.expression import safe_value
from mappa_env.grading.math import grade_answer
from mappa_env.grading.reading import boxed
from mappa_env.scripted.base import Act, FaultPlan
from mappa_env.scripted.math_actions import (
    BOX_FAULTS,
    FORMULA_FAULTS,
    RUN_FAULTS,
    answer_of,
    code,
    expr_of,
    formula,
    gold_of,
    worded,
)
from mappa_env.scripted.math_roles import conclude, solve
from mappa_env.scripted.mathchat import plan_in
from mappa_env.scripted.roles import Role, RoleScript


def draft(act: Act) -> str:
    """Compute and box; after a fault, what the reviewer plans."""
    if act.fault == "stubborn":
        return solve(dataclasses.replace(act, fault="wrong_formula"))
    if not act.returns or act.fault is None:
        return solve(act)
    if act.own:
        return conclude(dataclasses.replace(act, fault=None))
    plan = plan_in(act.history)
    expr = plan if safe_value(plan) is not None else expr_of(act.task)
    return worded(act.style, code(expr, None), "I compute what the Reviewer plans.\n")


def review(act: Act) -> str:
    """Plan the answer by oneself, and accept the author's box if it has that value."""
    if act.fault == "rejects_right":
        plan, word = formula(act.task, "wrong_formula", act.rng), "revise"
    else:
        plan, word = expr_of(act.task), "accept" if act.fault == "accepts_all" or _right(act) else "revise"
    lines = f"plan: {plan}" if act.fault == "undecided" else f"plan: {plan}\ndecision: {word}"
    return worded(act.style, lines, "This is how I would compute the answer.")


def _right(act: Act) -> bool:
    """Whether the author's newest answer is right."""
    last = [record.answer for record in act.history if record.agent != act.agent]
    if not last:
        return False
    found, gold = boxed(last[-1]), gold_of(act.task)
    if gold is not None:  # without a process that grades symbols
        return found is not None and found.number == gold
    return grade_answer(last[-1], answer_of(act.task)).correct


SCRIPT = RoleScript(
    {
        "author": Role((*FORMULA_FAULTS, *RUN_FAULTS, *BOX_FAULTS, "stubborn"), draft),
        "reviewer": Role(("rejects_right", "accepts_all", "undecided"), review),
    }
)

HABIT = 0.75
FAULTY = FaultPlan(
    rates={"author": 0.25, "reviewer": 0.25},
    usual={
        ("modular", "author"): ("stubborn", HABIT),
        ("linear", "author"): ("stubborn", HABIT),
        ("linear", "reviewer"): ("accepts_all", HABIT),
        ("counting", "author"): ("no_box", HABIT),
        ("counting", "reviewer"): ("accepts_all", HABIT),
        ("sequence", "author"): ("stubborn", HABIT),
        ("sequence", "reviewer"): ("undecided", HABIT),
        ("number_theory", "author"): ("no_print", HABIT),
        ("number_theory", "reviewer"): ("rejects_right", HABIT),
        ("divisor", "author"): ("miscopied", HABIT),
        ("divisor", "reviewer"): ("accepts_all", HABIT),
        ("word", "author"): ("stubborn", HABIT),
    },
)
"""The faulty team: on seven of the nine topics, the author has a usual fault, and the reviewer on five."""
