"""Teams that follow a script: fixtures for tests, demonstrations for warm starts, cases for coaches."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from mappa_env import plugins
from mappa_env.errors import OptionError, nearest
from mappa_env.scripted.base import Act, Expert, FaultPlan, Plan, Script, ScriptedTeam, Single, Style, single

__all__ = [
    "Act",
    "Expert",
    "FaultPlan",
    "Plan",
    "Script",
    "ScriptedTeam",
    "Single",
    "Style",
    "load_script",
    "make_team",
]

_SHIPPED = (
    "mathchat",
    "math_single",
    "math_debate",
    "math_mixture",
    "math_manager",
    "math_refine",
    "dsbench",
    "dsbench_sprint",
    "dsbench_single",
    "dsbench_manager",
    "almanac",
)
SCRIPTS = plugins.Kind(
    name="scripted team",
    option="scripted",
    group="mappa.scripts",
    builtin={name: f"mappa_env.scripted.{name}:SCRIPT" for name in _SHIPPED},
    methods={"act": (1, ())},
    attributes={"faults": Mapping, "faulty": Plan},
    advice="Write a class with faults, faulty and act(self, act); see docs/extending.md.",
)
KINDS = ("expert", "faulty", "single")


def load_script(name: str) -> tuple[Script, FaultPlan]:
    """Return the script of that name and the plan of its faulty team. Raises OptionError; see ``SCRIPTS``."""
    if SCRIPTS.is_builtin(name):
        module: Any = importlib.import_module(f"mappa_env.scripted.{name}")
        return module.SCRIPT, module.FAULTY
    script = SCRIPTS.make(name)
    return script, script.faulty


def make_team(
    name: str, kind: str = "expert", *, style: Style = "full", agent: str = "", fault: str = ""
) -> ScriptedTeam:
    """Build a scripted team.

    Args:
        name: Name of the script.
        kind: ``expert`` commits no fault, ``faulty`` commits faults by habit and at random, and in ``single``
            only ``agent`` commits ``fault``, in every episode.
        style: The length of the card's prompts.
        agent: The agent of ``single``.
        fault: The fault of ``single``.

    Raises:
        OptionError: The script, kind, agent or fault is unknown.
    """
    script, faulty = load_script(name)
    plans: dict[str, Plan] = {"expert": Expert(), "faulty": faulty}
    if kind == "single":
        plans["single"] = single(script, agent, fault)
    if kind not in plans:
        raise OptionError(f"kind={kind!r} is unknown; use one of {KINDS}." + nearest(str(kind), KINDS))
    return ScriptedTeam(script, plans[kind], style=style)
