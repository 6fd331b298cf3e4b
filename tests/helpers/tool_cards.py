"""Cards with tools, written into a folder, and a playing of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from mappa_env.cards import Card, read_card

TEMPLATE = "{{ task.prompt }}{% for tool in tools %}|{{ tool.name }}{% endfor %}"
RESULTS = "{% for call in calls %}{{ call.tool }} {{ call.status }}: {{ call.text }}\n{% endfor %}"
RUBRIC = {
    "version": 1,
    "roles": {
        "scout": {
            "criteria": [
                {"name": "asked", "check": "searched", "weight": 1},
                {"name": "report", "check": "reported", "weight": 2},
            ]
        }
    },
}


def tool_card(folder: Path, tools: dict[str, Any], allowed: Sequence[str], **changes: Any) -> Card:
    """A card with one scout of five turns. ``tools`` is its section, ``allowed`` what the scout may call."""
    for name, text in {"scout": TEMPLATE, "tool": RESULTS}.items():
        path = folder / "prompts" / "full" / f"{name}.jinja"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (folder / "tasks").mkdir(exist_ok=True)
    task = {"id": "t", "prompt": "Which island?", "answer": "Tholm", "metric": "exact_text"}
    for split in ("train", "eval"):
        row = {**task, "prompt": f"{task['prompt']} {split}"}
        (folder / "tasks" / f"{split}.jsonl").write_text(json.dumps(row))
    (folder / "rubric.yaml").write_text(yaml.safe_dump(RUBRIC))
    raw = {
        "id": "Tools-v0",
        "title": "Tools",
        "tools": tools,
        "team": [{"name": "scout_0", "max_turns": 5, "tools": list(allowed)}],
        "tasks": {"loader": "jsonl"},
        "grader": {"name": "text"},
        "coach": {"rubric": "rubric.yaml", "truth": ["scout_0"]},
        **changes,
    }
    (folder / "card.yaml").write_text(yaml.safe_dump(raw))
    return read_card(folder)


def fence(tool: str, text: str) -> str:
    """A call as a fence."""
    return f"```{tool}\n{text}\n```"
