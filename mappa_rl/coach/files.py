"""The coach's cache and ledger, in the folder of the run."""

from __future__ import annotations

from pathlib import Path

from mappa_rl.config import Config

MODELS = ("gemini", "openai")
"""Coaches that ask a language model."""


def asks_a_model(config: Config) -> bool:
    """Whether the coach is a language model."""
    coach = config.env.coach
    name = coach if isinstance(coach, str) else coach.get("name")
    return str(name).partition(":")[0] in MODELS


def with_coach_files(config: Config, out: Path) -> Config:
    """``config`` with the coach's ``cache`` and ``ledger`` in the run's folder, unless it names others.

    A resumed run then pays for no answer twice and keeps its spending, and a finished run can be replayed.
    Use it in memory only: the written config must not name the folder of a run.
    """
    coach = config.env.coach
    options = {"name": coach} if isinstance(coach, str) else dict(coach)
    if not asks_a_model(config):
        return config
    folder = out / "coach"
    files = {"cache": str(folder / "calls.sqlite"), "ledger": str(folder / "ledger.jsonl")}
    env = config.env.model_copy(update={"coach": {**files, **options}})
    return config.model_copy(update={"env": env})
