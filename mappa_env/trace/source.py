"""What a trace says about its card, so that it can be read without it."""

from __future__ import annotations

import dataclasses
from typing import Any

from mappa_env.cards import Card

KNOWN = {
    "python": {
        "name": "python",
        "description": "Runs the Python blocks of a reply as one script, and returns its output.",
        "parameters": {
            "type": "object",
            "properties": {"code": {"type": "string", "description": "the script"}},
            "required": ["code"],
        },
    }
}
"""Tools by name, as a chat API describes them."""


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
        "tools": [KNOWN.get(name, {"name": name}) for name in sorted(names)],
    }


def _step(step: Any) -> Any:
    """A step of an order or a condition: ``{"<its kind>": {<its fields>}}``."""
    if dataclasses.is_dataclass(step):
        fields = {field.name: _step(getattr(step, field.name)) for field in dataclasses.fields(step)}
        return {type(step).__name__.lower(): fields}
    if isinstance(step, tuple):
        return [_step(each) for each in step]
    return step
