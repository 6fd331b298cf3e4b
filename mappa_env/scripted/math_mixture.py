"""The script of a mixture of agents: three proposers state expressions, an aggregator computes and answers.

An aggregator that follows its proposers is not at fault if none of them is right.
"""

from __future__ import annotations

from mappa_env.scripted.base import FaultPlan
from mappa_env.scripted.math_roles import DECIDER, PROPOSER
from mappa_env.scripted.roles import RoleScript

SCRIPT = RoleScript({"proposer": PROPOSER, "aggregator": DECIDER})

HABIT = 0.75
FAULTY = FaultPlan(
    rates={"proposer": 0.2, "aggregator": 0.2},
    usual={
        ("linear", "proposer"): ("wrong_formula", HABIT),
        ("linear", "aggregator"): ("no_box", HABIT),
        ("counting", "proposer"): ("wrong_formula", HABIT),
        ("counting", "aggregator"): ("wrong_choice", HABIT),
        ("sequence", "proposer"): ("wrong_digit", HABIT),
        ("sequence", "aggregator"): ("boxes_problem_number", HABIT),
        ("number_theory", "proposer"): ("unstated", HABIT),
        ("number_theory", "aggregator"): ("no_print", HABIT),
    },
)
"""The faulty team: on four of the nine topics, proposers and aggregator have a usual fault."""
