"""What a trace says about its card, so that it can be read without it."""

from __future__ import annotations

import dataclasses
from typing import Any

from mappa_env.cards import Card
from mappa_env.tools.python import PYTHON, SPEC


def described(card: Card) -> dict[str, Any]:
    """Id, title, summary, team, order, tools and limits of ``card`` as JSON; neither prompts nor rubric."""
    names = {name for agent in card.team for name in agent.tools}
    return {
        "id": card.id,
        "title": card.title,
        "summary": card.summary,
        "team": [dataclasses.asdict(agent) for agent in card.team],
        "order": [_step(step) for step in card.order.steps],
        "limits": dataclasses.asdict(card.limits),
        "tools": [_tool(name) for name in sorted(names)],
    }


def _tool(name: str) -> dict[str, Any]:
    """A tool as a chat API describes it. Others than Python say what they are in prompts alone."""
    if name != PYTHON:
        return {"name": name}
    return {"name": name, "description": SPEC.description, "parameters": SPEC.parameters}


def _step(step: Any) -> Any:
    """A step of an order or a condition: ``{"<its kind>": {<its fields>}}``."""
    if dataclasses.is_dataclass(step):
        fields = {field.name: _step(getattr(step, field.name)) for field in dataclasses.fields(step)}
        return {type(step).__name__.lower(): fields}
    if isinstance(step, tuple):
        return [_step(each) for each in step]
    return step
