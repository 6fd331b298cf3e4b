"""Teams that play by a script: fixtures for tests, demonstrations for warm starts, cases for coaches."""

from __future__ import annotations

import importlib
from typing import Any

from mappa_env.errors import OptionError, nearest
from mappa_env.scripted.base import Expert, FaultPlan, Plan, Script, ScriptedTeam, Single, Style, single

__all__ = ["Expert", "FaultPlan", "Plan", "Script", "ScriptedTeam", "Single", "load_script", "make_team"]

SCRIPTS = ("mathchat", "dsbench", "dsbench_sprint")
KINDS = ("expert", "faulty", "single")


def load_script(name: str) -> tuple[Script, FaultPlan]:
    """The script of that name and its faulty team's plan. Raises OptionError."""
    if name not in SCRIPTS:
        raise OptionError(f"no script {name!r}; there are {SCRIPTS}." + nearest(str(name), SCRIPTS))
    module: Any = importlib.import_module(f"mappa_env.scripted.{name}")
    return module.SCRIPT, module.FAULTY


def make_team(
    name: str, kind: str = "expert", *, style: Style = "full", agent: str = "", fault: str = ""
) -> ScriptedTeam:
    """A scripted team: ``expert`` never errs, ``faulty`` errs by habit and at random, ``single`` makes
    ``agent`` commit ``fault`` in every episode. ``style`` is the length of the card's prompts."""
    script, faulty = load_script(name)
    plans: dict[str, Plan] = {"expert": Expert(), "faulty": faulty}
    if kind == "single":
        plans["single"] = single(script, agent, fault)
    if kind not in plans:
        raise OptionError(f"kind={kind!r} is not offered; use one of {KINDS}." + nearest(str(kind), KINDS))
    return ScriptedTeam(script, plans[kind], style=style)
