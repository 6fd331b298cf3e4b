"""What an agent sees of the others' segments: whole ones, without thinking."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypedDict

from mappa_env.order import Segment
from mappa_env.types import Team, ToolCall


class Shown(TypedDict):
    """Another agent's segment, as prompt templates see it. ``output``: that of its last code, stripped."""

    agent: str
    role: str
    title: str
    text: str
    code: str
    output: str
    status: str
    calls: list[ToolCall]
    feedback: str


def earlier_segments(team: Team, segments: Iterable[Segment], feedback: bool) -> list[Shown]:
    """What templates see of ``segments``; ``feedback``: include the coach's reasoning."""
    found = []
    for segment in segments:
        tools = [action.tool for action in segment.actions if action.tool is not None]
        spec = team[segment.agent]
        found.append(
            Shown(
                agent=spec.name,
                role=spec.role,
                title=spec.title,
                text=segment.text,
                code=next((action.code for action in reversed(segment.actions) if action.code), ""),
                output=tools[-1].stdout.strip() if tools else "",
                status=tools[-1].status if tools else "",
                calls=[call for action in segment.actions for call in action.calls],
                feedback=_joined(a.verdict.reasoning for a in segment.actions) if feedback else "",
            )
        )
    return found


def _joined(texts: Iterable[str]) -> str:
    return "\n".join(text for text in texts if text)
