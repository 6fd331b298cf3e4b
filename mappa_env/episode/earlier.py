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
        tool, code = None, ""
        calls: list[ToolCall] = []
        for action in segment.actions:
            tool, code = action.tool or tool, action.code or code
            calls += action.calls
        spec = team[segment.agent]
        found.append(
            Shown(
                agent=spec.name,
                role=spec.role,
                title=spec.title,
                text=segment.text,
                code=code,
                output=tool.stdout.strip() if tool else "",
                status=tool.status if tool else "",
                calls=calls,
                feedback=_joined(a.verdict.reasoning for a in segment.actions) if feedback else "",
            )
        )
    return found


def _joined(texts: Iterable[str]) -> str:
    return "\n".join(text for text in texts if text)
