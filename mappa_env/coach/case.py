"""A case before the rubric: one action's evidence, and the readings of it that checks share."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from mappa_env.parsing import split_thinking
from mappa_env.types import ActionRecord, Evidence, Team, ToolResult


class Finding(NamedTuple):
    """What a check found: ``score`` in [0, 1]; ``blame`` names who is responsible for what is lacking.

    Reasons may be shown to agents: they never quote the hidden truth.
    """

    score: float
    reason: str
    blame: str | None = None


Check = Callable[..., Finding | None]
"""``check(case, **options)``; None where the check does not apply to this action."""

_TAIL = 4000
_EXCEPTION = re.compile(
    r"^([A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Exit|Iteration|Warning))\b[^\n]*", re.M
)


@dataclass(frozen=True)
class Case:
    evidence: Evidence
    team: Team

    @property
    def me(self) -> str:
        return self.evidence.agent.name

    @cached_property
    def answer(self) -> str:
        """The action without its thinking."""
        return split_thinking(self.evidence.action)[1]

    @cached_property
    def own(self) -> tuple[ActionRecord, ...]:
        """The earlier actions of this stay."""
        return tuple(record for record in self.evidence.history if record.agent == self.me)

    @cached_property
    def last_tool(self) -> ToolResult | None:
        """The tool run that this action rests on: its own, else the last one of its stay."""
        runs = [record.tool for record in self.own if record.tool is not None]
        return self.evidence.tool or (runs[-1] if runs else None)

    @cached_property
    def wrote(self) -> frozenset[str]:
        """The files this very action wrote."""
        tool = self.evidence.tool
        return frozenset(f.path for f in tool.files if f.op != "deleted") if tool else frozenset()

    def mine(self, path: str) -> bool:
        """Whether ``path`` is a file that is there and that this agent was the last to write."""
        change = self.evidence.present.get(path)
        return change is not None and change.agent == self.me and change.kind == "file"

    def owner(self, path: str) -> str | None:
        """Who answers for ``path`` not being there: the upstream agent that deleted it last, else the one
        that has to make it; None where nobody before this agent does."""
        names = self.team.names
        for record in reversed(self.evidence.history):
            if path in deleted_by(record.tool):
                return record.agent if record.agent != self.me else None
        before = names[: names.index(self.me)]
        return next((name for name in before if path in self.team[name].requires), None)


def deleted_by(tool: ToolResult | None) -> frozenset[str]:
    """The paths that a run removed."""
    return frozenset(f.path for f in tool.files if f.op == "deleted") if tool is not None else frozenset()


def exception_of(tool: ToolResult) -> tuple[str, str]:
    """(class name, whole line) of the last exception in the traceback; empty where there is none."""
    found = list(_EXCEPTION.finditer(tool.stderr[-_TAIL:]))
    return (found[-1][1].rsplit(".", 1)[-1], found[-1][0][:160]) if found else ("", "")
