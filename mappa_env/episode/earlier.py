"""What a later agent sees of an earlier one: its whole stay, thinking stripped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypedDict

from mappa_env.types import ActionRecord, Team


class Stay(TypedDict):
    """One earlier agent's stay, as prompt templates see it. ``output`` is the last tool output, stripped."""

    agent: str
    role: str
    title: str
    text: str
    code: str
    output: str
    status: str
    feedback: str


def earlier_stays(team: Team, actions: Sequence[ActionRecord], until: str, feedback: bool) -> list[Stay]:
    """The stays of all agents before ``until``; coach's words only when ``feedback`` is on."""
    names = team.names
    stays = []
    for name in names[: names.index(until)]:
        mine = [action for action in actions if action.agent == name]
        tools = [action.tool for action in mine if action.tool is not None]
        stays.append(
            Stay(
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
    return stays


def _joined(texts: Iterable[str]) -> str:
    return "\n".join(text for text in texts if text)
