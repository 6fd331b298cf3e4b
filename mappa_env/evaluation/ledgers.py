"""Ledgers in the folder of an evaluation: a budget holds over all its launches."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_SERVED = ("openai", "gemini")


def ledger_of(folder: Path, agent: str) -> Path:
    """Of the model that plays ``agent``; ``*`` is who plays every agent that is not named."""
    suffix = "" if agent == "*" else "-" + re.sub(r"\W", "-", agent)
    return folder / f"ledger{suffix}.jsonl"


def with_ledger(options: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Keywords of an environment; a model as the coach gets a ledger in ``folder``, unless it has one."""
    coach = options.get("coach")
    spec = {"name": coach} if isinstance(coach, str) else coach
    if not isinstance(spec, Mapping) or str(spec.get("name")).partition(":")[0] not in _SERVED:
        return dict(options)
    return {**options, "coach": {"ledger": str(folder / "ledger-of-coach.jsonl"), **spec}}
