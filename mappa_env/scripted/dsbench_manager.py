"""The script of a manager who lets the sprint's engineer, modeler and analyst work.

The manager asks whoever comes first of those that have not written all their files, each at most twice. If a
script has failed, it first asks again whoever made its inputs. A worker commits its fault in its first
segment only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from mappa_env.scripted.base import Act, FaultPlan
from mappa_env.scripted.dsbench_sprint import FAULTY as SPRINT_FAULTY
from mappa_env.scripted.dsbench_sprint import SCRIPT as SPRINT
from mappa_env.scripted.math_actions import worded
from mappa_env.scripted.roles import Role, RoleScript, at_first
from mappa_env.types import ActionRecord

_FILES = {
    "engineer_0": {"X_train.pkl", "y_train.pkl", "X_test.pkl"},
    "modeler_0": {"model.pkl"},
    "analyst_0": {"submission.csv"},
}
_BEFORE = {"modeler_0": "engineer_0", "analyst_0": "modeler_0"}
"""Whose files an agent works with."""
_MOST = 2


def manage(act: Act) -> str:
    """Name the agent that works next, or end."""
    asked = Counter(record.agent for record in act.history)
    chosen = _needed(act.history, asked)
    if act.fault == "names_itself":
        chosen = act.agent
    elif act.fault == "asks_on":
        chosen = "engineer_0"
    elif (act.fault, chosen) == ("skips_modeler", "modeler_0"):
        chosen = "done" if asked["analyst_0"] else "analyst_0"
    elif (act.fault, chosen) == ("ends_early", "analyst_0"):
        chosen = "done"
    return worded(act.style, f"next: {chosen}", _WORDS.get(chosen, "I will see to it."))


_WORDS = {
    "engineer_0": "The features come first: please save all three files.",
    "modeler_0": "The features are there: please fit a model.",
    "analyst_0": "The model is there: please write the submission.",
    "done": "There is no more to do.",
}


def _needed(history: Sequence[ActionRecord], asked: Mapping[str, int]) -> str:
    """Whom the work needs next; ``asked``: agent -> how often it has worked."""
    last = next((record for record in reversed(history) if record.tool is not None), None)
    if last is not None and last.tool is not None and last.tool.status != "ok":
        before = _BEFORE.get(last.agent, last.agent)
        if asked[before] < _MOST:
            return before
    there = _written(history)
    missing = [name for name, files in _FILES.items() if not files <= there and asked[name] < _MOST]
    return missing[0] if missing else "done"


def _written(history: Sequence[ActionRecord]) -> set[str]:
    there: set[str] = set()
    for record in history:
        if record.tool is not None:
            there = (there | set(record.tool.written)) - set(record.tool.deleted)
    return there


SCRIPT = RoleScript(
    {
        "manager": Role(("names_itself", "asks_on", "skips_modeler", "ends_early"), manage),
        **{role: Role(faults, at_first(SPRINT.act)) for role, faults in SPRINT.faults.items()},
    }
)

HABIT = 0.75
FAULTY = FaultPlan(
    rates={**SPRINT_FAULTY.rates, "manager": 0.1},
    usual={
        **SPRINT_FAULTY.usual,
        ("accuracy", "manager"): ("ends_early", HABIT),
        ("rmse", "manager"): ("skips_modeler", HABIT),
        ("smape", "manager"): ("asks_on", HABIT),
        ("r2", "manager"): ("ends_early", HABIT),
    },
)
"""The faulty team: the sprint's, and a manager with a usual fault on four of the twelve metrics."""
