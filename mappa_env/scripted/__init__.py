"""Teams that follow a script: fixtures for tests, demonstrations for warm starts, cases for coaches."""

from __future__ import annotations

import importlib
from typing import Any

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

SCRIPTS = ("mathchat", "dsbench", "dsbench_sprint")
KINDS = ("expert", "faulty", "single")


def load_script(name: str) -> tuple[Script, FaultPlan]:
    """Return the script of that name and the plan of its faulty team. Raises OptionError."""
    if name not in SCRIPTS:
        raise OptionError(
            f"scripted={name!r} is not a script; choose from {SCRIPTS}." + nearest(str(name), SCRIPTS)
        )
    module: Any = importlib.import_module(f"mappa_env.scripted.{name}")
    return module.SCRIPT, module.FAULTY


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
