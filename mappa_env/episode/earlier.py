"""What later agents see of earlier ones: their whole segments, without thinking."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypedDict

from mappa_env.types import ActionRecord, Team


class Segment(TypedDict):
    """An earlier agent's segment, as prompt templates see it. ``output``: the last tool output, stripped."""

    agent: str
    role: str
    title: str
    text: str
    code: str
    output: str
    status: str
    feedback: str


def earlier_segments(
    team: Team, actions: Sequence[ActionRecord], until: str, feedback: bool
) -> list[Segment]:
    """The segments of all agents before ``until``; ``feedback``: include the coach's reasoning."""
    names = team.names
    segments = []
    for name in names[: names.index(until)]:
        mine = [action for action in actions if action.agent == name]
        tools = [action.tool for action in mine if action.tool is not None]
        segments.append(
            Segment(
                agent=name,
                role=team[name].role,
                title=team[name].title,
                text=_joined(action.answer for action in mine),
                code=next((action.code for action in reversed(mine) if action.code), ""),
                output=tools[-1].stdout.strip() if tools else "",
                status=tools[-1].status if tools else "",
                feedback=_joined(a.verdict.reasoning for a in mine) if feedback else "",
            )
        )
    return segments


def _joined(texts: Iterable[str]) -> str:
    return "\n".join(text for text in texts if text)
