"""A task loader: ``tasks: {loader: "loader.py:load"}`` in card.yaml."""

import json
from pathlib import Path
from typing import Any

from mappa_env.data import ListTaskSet
from mappa_env.types import Task

FOLDER = Path(__file__).parent / "tasks"


def load(split: str) -> ListTaskSet:
    """The tasks of ``tasks/<split>.jsonl``."""
    lines = (FOLDER / f"{split}.jsonl").read_text(encoding="utf-8").splitlines()
    return ListTaskSet("unit_tests", split, [task_of(json.loads(line), split) for line in lines])


def task_of(row: dict[str, Any], split: str) -> Task:
    """A row as a task. ``meta`` is public; ``truth`` never reaches a prompt, an agent or its code."""
    name = row["function"]
    calls = [(", ".join(map(repr, arguments)), value) for arguments, value in row["examples"]]
    meta = {"function": name, "examples": [f"{name}({given}) == {value!r}" for given, value in calls]}
    truth = {key: row[key] for key in ("tests", "solution", "wrong")}
    texts = {key: row[key] for key in ("id", "prompt", "compact", "topic")}
    return Task(**texts, metric="unit_tests", split=split, meta=meta, truth=truth)
