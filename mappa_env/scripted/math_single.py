"""The script of one agent that computes the answer to a problem and boxes it."""

from __future__ import annotations

from mappa_env.scripted.base import FaultPlan
from mappa_env.scripted.math_roles import SOLVER
from mappa_env.scripted.roles import RoleScript

SCRIPT = RoleScript({"solver": SOLVER})

HABIT = 0.75
FAULTY = FaultPlan(
    rates={"solver": 0.25},
    usual={
        ("linear", "solver"): ("wrong_formula", HABIT),
        ("counting", "solver"): ("no_print", HABIT),
        ("sequence", "solver"): ("boxes_problem_number", HABIT),
        ("number_theory", "solver"): ("no_box", HABIT),
    },
)
"""The faulty team: on four of the nine topics, the agent has a usual fault."""
