"""The script of a debate: two debaters state expressions until they agree, a judge computes and answers.

A judge that follows what both debaters say is not at fault if they are wrong.
"""

from __future__ import annotations

from mappa_env.scripted.base import FaultPlan
from mappa_env.scripted.math_roles import DECIDER, PROPOSER
from mappa_env.scripted.roles import RoleScript

SCRIPT = RoleScript({"debater": PROPOSER, "judge": DECIDER})

HABIT = 0.75
FAULTY = FaultPlan(
    rates={"debater": 0.2, "judge": 0.2},
    usual={
        ("linear", "debater"): ("wrong_formula", HABIT),
        ("linear", "judge"): ("no_box", HABIT),
        ("counting", "debater"): ("wrong_formula", HABIT),
        ("counting", "judge"): ("wrong_choice", HABIT),
        ("sequence", "debater"): ("wrong_digit", HABIT),
        ("sequence", "judge"): ("boxes_problem_number", HABIT),
        ("number_theory", "debater"): ("unstated", HABIT),
        ("number_theory", "judge"): ("no_print", HABIT),
    },
)
"""The faulty team: on four of the nine topics, debaters and judge have a usual fault."""
