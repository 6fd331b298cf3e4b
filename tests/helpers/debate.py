"""A card whose team argues in rounds, branches, returns and uses a tool."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

AGREED = {"agree": ["pro_0", "con_0"]}
CARD: dict[str, Any] = {
    "id": "Debate-v0",
    "title": "Debate",
    "team": [
        {"name": "pro_0", "title": "First"},
        {"name": "con_0", "title": "Second"},
        {"name": "coder_0", "title": "Coder", "max_turns": 2, "tools": ["python"]},
        {"name": "judge_0", "title": "Judge"},
    ],
    "order": [
        {"repeat": [{"parallel": ["pro_0", "con_0"]}], "times": 3, "until": AGREED},
        {"if": AGREED, "then": ["judge_0"], "else": ["coder_0", "pro_0", "judge_0"]},
    ],
    "tasks": {"loader": "arithmetic"},
    "grader": {"name": "math"},
    "coach": {},
}
PROMPT = """{{ agent.name }} begins, {{ turns_left }} left: {{ task.prompt }}
{% for segment in earlier %}{{ segment.agent }} said {{ segment.text }}.
{% endfor %}"""
AGAIN = """{{ agent.name }} returns ({{ returns }}).
{% for segment in earlier %}{{ segment.agent }} said {{ segment.text }}.
{% endfor %}"""

AGENTS = tuple(row["name"] for row in CARD["team"])
OPTIONS = {"coach": "off", "shaping": "outcome", "sandbox": "calculator"}
DISAGREED = (*["1", "2"] * 3, "```python\nprint(3)\n```", "3", "so 3", r"\boxed{3}")
"""Texts of an episode in which nobody agrees."""
ROUNDS = [(agent, turn) for turn in range(3) for agent in ("pro_0", "con_0")]
TURNS = [*ROUNDS, ("coder_0", 0), ("coder_0", 1), ("pro_0", 3), ("judge_0", 0)]
"""(agent, turn) of each of them."""


def write_debate(folder: Path) -> Path:
    """Write the card into ``folder``, and return it."""
    prompts = folder / "prompts" / "full"
    prompts.mkdir(parents=True)
    for role in ("pro", "con", "coder", "judge"):
        (prompts / f"{role}.jinja").write_text(PROMPT)
    (prompts / "tool.jinja").write_text("Output: {{ tool.stdout }}")
    (prompts / "again.jinja").write_text(AGAIN)
    (folder / "card.yaml").write_text(yaml.safe_dump(CARD))
    return folder


def write_judges(folder: Path) -> Path:
    """Give the card in ``folder`` a rubric and questions for a model, and return it."""
    answers = {"criteria": [{"name": "answer", "check": "math_solution", "weight": 1}]}
    code = {"criteria": [{"name": "code", "check": "math_code", "weight": 1}]}
    roles = {"pro": answers, "con": answers, "judge": answers, "coder": code}
    (folder / "rubric.yaml").write_text(yaml.safe_dump({"version": 1, "roles": roles}))
    row = {"name": "right", "weight": 1, "question": "is it right?", "best": "yes", "worst": "no"}
    asked = {role: {"duty": "answer.", "criteria": [row]} for role in roles}
    (folder / "coach.yaml").write_text(
        yaml.safe_dump({"version": 1, "template": "coach.jinja", "roles": asked})
    )
    (folder / "coach.jinja").write_text("You judge the {{ role }} of {{ title }}. Its duty: {{ duty }}")
    coach = {"rubric": "rubric.yaml", "questions": "coach.yaml", "truth": list(AGENTS)}
    (folder / "card.yaml").write_text(yaml.safe_dump(CARD | {"coach": coach}))
    return folder
