"""The script of a manager who asks a solver for a plan, has a coder compute it, and answers.

The manager relies on its workers, right or wrong, but asks the coder once more if it brought no value. A
worker commits its fault in its first segment only.
"""

from __future__ import annotations

from collections.abc import Sequence

from mappa_env.scripted.base import Act, FaultPlan
from mappa_env.scripted.math_actions import BOX_FAULTS, NONE, box, worded
from mappa_env.scripted.mathchat import SCRIPT as CHAIN
from mappa_env.scripted.mathchat import compute, handed_on, plan
from mappa_env.scripted.roles import Role, RoleScript, at_first
from mappa_env.types import ActionRecord


def manage(act: Act) -> str:
    """Hand over to the next worker, or answer."""
    if act.fault == "names_itself":
        return worded(act.style, f"next: {act.agent}", "I will do this myself.")
    asked = _segments(act.history, "solver"), _segments(act.history, "coder")
    result, early = handed_on(act.history), act.fault == "answers_early"
    if act.fault == "asks_on" or not (asked[0] or early):
        return worded(act.style, "next: solver_0", "A plan comes first.")
    if not early and (not asked[1] or (result == NONE and asked[1] == 1)):
        return worded(act.style, "next: coder_0", "Please compute the plan.")
    fault = "boxes_problem_number" if early else "no_box" if result == NONE else act.fault
    answer = box(act.task, result, fault, act.rng)
    return worded(act.style, f"answer: {answer}\nnext: done", "The team has a result.")


def _segments(history: Sequence[ActionRecord], role: str) -> int:
    return sum(record.role == role and record.last_turn for record in history)


SCRIPT = RoleScript(
    {
        "manager": Role(("names_itself", "asks_on", "answers_early", *BOX_FAULTS), manage),
        "solver": Role(CHAIN.faults["solver"], at_first(plan)),
        "coder": Role(CHAIN.faults["coder"], at_first(compute)),
    }
)

HABIT = 0.75
FAULTY = FaultPlan(
    rates={"manager": 0.1, "solver": 0.1, "coder": 0.1},
    usual={
        ("linear", "manager"): ("no_box", HABIT),
        ("linear", "solver"): ("wrong_formula", HABIT),
        ("counting", "manager"): ("answers_early", HABIT),
        ("counting", "coder"): ("miscopied_result", HABIT),
        ("sequence", "manager"): ("asks_on", HABIT),
        ("sequence", "coder"): ("wrong_operator", HABIT),
        ("number_theory", "manager"): ("names_itself", HABIT),
        ("number_theory", "coder"): ("crash", HABIT),
    },
)
"""The faulty team: on four of the nine topics, two of the three have a usual fault."""
