"""Where a run keeps what its coach said and cost: in its own folder."""

from __future__ import annotations

from pathlib import Path

from mappa_rl.config import Config

MODELS = ("gemini", "openai")
"""Kinds of coaches that ask a language model."""


def asks_a_model(config: Config) -> bool:
    """Whether the coach is a language model."""
    coach = config.env.coach
    name = coach if isinstance(coach, str) else coach.get("name")
    return str(name).partition(":")[0] in MODELS


def with_coach_files(config: Config, out: Path) -> Config:
    """``config`` with the coach's ``cache`` and ``ledger`` in the run's folder, where it names no others.

    A resumed run then pays for no answer twice and goes on with what was spent, and a finished one can be
    replayed. It is for playing, not for writing down: a config names no folder of another run.
    """
    coach = config.env.coach
    options = {"name": coach} if isinstance(coach, str) else dict(coach)
    if not asks_a_model(config):
        return config
    folder = out / "coach"
    files = {"cache": str(folder / "calls.sqlite"), "ledger": str(folder / "ledger.jsonl")}
    env = config.env.model_copy(update={"coach": {**files, **options}})
    return config.model_copy(update={"env": env})
