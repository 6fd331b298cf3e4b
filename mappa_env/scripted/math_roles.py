"""Roles of teams that solve mathematics problems: who proposes an answer, who decides, who works alone."""

from __future__ import annotations

from collections import Counter

from mappa_env.grading.expression import Number, safe_value
from mappa_env.grading.reading import stated
from mappa_env.scripted.base import Act
from mappa_env.scripted.math_actions import (
    BOX_FAULTS,
    FORMULA_FAULTS,
    NONE,
    RUN_FAULTS,
    box,
    code,
    expr_of,
    formula,
    gold_of,
    miscopied,
    printed,
    worded,
)
from mappa_env.scripted.roles import Role


def proposals(act: Act) -> list[tuple[str, Number]]:
    """What each of the others said last, if it states an expression with a value."""
    newest = {record.agent: record for record in act.history if record.agent != act.agent}
    found = []
    for record in newest.values():
        reading = stated(record.answer)
        if reading is not None and (value := safe_value(reading.text)) is not None:
            found.append((reading.text, value))
    return found


def propose(act: Act) -> str:
    """State an expression for the answer.

    With another answer in view, an agent without a fault keeps its own, and so does one with
    ``wrong_formula``; other mistakes are given up for what somebody else says.
    """
    fault, words = act.fault, "One expression gives the answer."
    if fault == "unstated":
        return worded(act.style, expr_of(act.task), words)
    expr = formula(act.task, fault, act.rng)
    if act.returns:
        before = [stated(record.answer) for record in act.history if record.agent == act.agent]
        words = "I read the other answers, and mine still holds."
        expr = before[-1].text if before[-1] is not None else expr
    if act.returns and fault in ("wrong_operator", "wrong_digit"):
        others = [text for text, value in proposals(act) if value != safe_value(expr)]
        if others:
            words, expr = "The other answer is right, and mine was not.", others[0]
    return worded(act.style, f"answer: {expr}", words)


def decide(act: Act) -> str:
    """Compute what the right one of the others said, and box the result.

    If none of them is right, this agent follows most of them, or the first; it answers by itself if nobody
    said anything.
    """
    if act.own:
        return conclude(act)
    said = proposals(act)
    right = [expr for expr, value in said if value == gold_of(act.task)]
    if act.fault == "wrong_choice":
        wrong = [expr for expr, value in said if value != gold_of(act.task)]
        expr = wrong[0] if wrong else formula(act.task, "wrong_formula", act.rng)
    elif right or not said:
        expr = right[0] if right else expr_of(act.task)
    else:
        most = Counter(value for _, value in said).most_common(1)[0][0]
        expr = next(text for text, value in said if value == most)
    expr = miscopied(act.task, expr, act.fault, act.rng)
    return worded(act.style, code(expr, act.fault), "I compute the answer that I take for right.\n")


def solve(act: Act) -> str:
    """Compute the answer, and box the result."""
    if act.own:
        return conclude(act)
    expr = formula(act.task, act.fault, act.rng)
    return worded(act.style, code(expr, act.fault), "One expression gives the answer.\n")


def conclude(act: Act) -> str:
    """Box what one's own code printed; without a value there is no box."""
    value = printed(act.own[-1])
    answer = box(act.task, value, "no_box" if value == NONE else act.fault, act.rng)
    return worded(act.style, f"answer: {answer}", "This is what the code printed.")


PROPOSER = Role((*FORMULA_FAULTS, "unstated"), propose)
DECIDER = Role(("wrong_choice", "wrong_operator", "wrong_digit", *RUN_FAULTS, *BOX_FAULTS), decide)
SOLVER = Role((*FORMULA_FAULTS, *RUN_FAULTS, *BOX_FAULTS), solve)
