"""Action records made by hand."""

from __future__ import annotations

from typing import Any

from mappa_env.types import ActionRecord, Verdict, role_of


def recorded(agent: str = "solver_0", **given: Any) -> ActionRecord:
    """An action that said nothing and ran nothing, judged and paid, except as ``given``."""
    plain: dict[str, Any] = {
        "step": 0,
        "turn": 0,
        "messages": (),
        "action": "",
        "thinking": "",
        "answer": "",
        "code": None,
        "tool": None,
        "verdict": Verdict("ok", 1.0),
        "reward": 0.0,
        "reward_valid": True,
        "stratum": ("math", role_of(agent), given.get("turn", 0)),
        "seed": 0,
        "last_turn": True,
    }
    return ActionRecord(agent=agent, **(plain | given))
