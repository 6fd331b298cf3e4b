"""The input of a rubric check: one action's evidence, and derived facts that checks share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from mappa_env.coach.program import Program
from mappa_env.parsing import split_thinking
from mappa_env.types import ActionRecord, Evidence, Team, ToolResult


class Finding(NamedTuple):
    """What a check found: ``score`` in [0, 1]; ``blame`` names the agent responsible for lost points.

    None: no points are lost, or nobody is to blame. Empty: the host does not know who is.
    Agents may see ``reason``, so it never quotes the hidden truth.
    """

    score: float
    reason: str
    blame: str | None = None


Check = Callable[..., Finding | None]
"""``check(case, **options)``; None if the check does not apply to this action."""


@dataclass(frozen=True)
class Case:
    """The evidence of one action, and the team of its agent."""

    evidence: Evidence
    team: Team

    @property
    def me(self) -> str:
        """The name of the acting agent."""
        return self.evidence.agent.name

    @cached_property
    def answer(self) -> str:
        """The action without its thinking."""
        return split_thinking(self.evidence.action)[1]

    @cached_property
    def own(self) -> tuple[ActionRecord, ...]:
        """The earlier actions of this segment."""
        return tuple(record for record in self.evidence.history if record.agent == self.me)

    @cached_property
    def before(self) -> tuple[ActionRecord, ...]:
        """The actions before this segment."""
        start = self.own[0].step if self.own else self.evidence.step
        return self.evidence.history[:start]

    @cached_property
    def programs(self) -> tuple[Program, ...]:
        """What ran in this segment so far, this action included."""
        evidence = self.evidence
        runs = [Program(record.code or "", record.tool) for record in self.own if record.tool is not None]
        return (*runs, *([Program(evidence.code or "", evidence.tool)] if evidence.tool is not None else ()))

    def mine(self, path: str) -> bool:
        """Whether ``path`` is an existing file that this agent wrote last, be it with the same content."""
        change = self.evidence.present.get(path)
        again = (change.path for run in self.programs for change in run.tool.files)
        return change is not None and change.kind == "file" and (change.agent == self.me or path in again)


def deleted_by(tool: ToolResult | None) -> frozenset[str]:
    """The paths that a run removed."""
    return frozenset(tool.deleted) if tool is not None else frozenset()
