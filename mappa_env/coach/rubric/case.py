"""The input of a rubric check: one action's evidence, and derived facts that checks share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from mappa_env.coach.program import Program
from mappa_env.order import Order
from mappa_env.parsing import split_thinking
from mappa_env.types import ActionRecord, Evidence, Team, ToolResult
from mappa_env.types.revised import revised


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
    """The evidence of one action, and the order in which its team acts.

    ``answerer``: the agent whose last action is graded; None: whoever closes the episode.
    """

    evidence: Evidence
    order: Order
    answerer: str | None = None

    @property
    def team(self) -> Team:
        """The team of the acting agent."""
        return self.order.team

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
        history = self.evidence.history
        return history[start_of(history, self.me) :]

    @cached_property
    def before(self) -> tuple[ActionRecord, ...]:
        """The actions before this segment, of all agents."""
        return self.evidence.history[: len(self.evidence.history) - len(self.own)]

    @cached_property
    def earlier(self) -> tuple[ActionRecord, ...]:
        """This agent's actions in the segments that it has had before."""
        return tuple(record for record in self.before if record.agent == self.me)

    @cached_property
    def seen(self) -> tuple[ActionRecord, ...]:
        """The earlier actions that this agent can know: not those of agents that act in parallel with it."""
        return self.order.seen(self.evidence.history)

    @cached_property
    def offered(self) -> tuple[str, ...]:
        """To whom this agent can hand over; empty: it chooses nobody."""
        return self.order.offered(self.evidence.history)

    @cached_property
    def sender(self) -> str | None:
        """The manager that handed over to this agent for this segment; None: nobody chose."""
        chosen = self.order.chosen_by(self.evidence.history)
        return None if chosen is None else chosen.agent

    @cached_property
    def products(self) -> tuple[str, ...]:
        """The files that an agent has to write and that no other agent reads: what the work is for."""
        read = {path for spec in self.team for path in spec.reads}
        return tuple(path for spec in self.team for path in spec.requires if path not in read)

    @cached_property
    def programs(self) -> tuple[Program, ...]:
        """What ran in this segment so far, this action included."""
        evidence = self.evidence
        runs = [Program(record.code or "", record.tool) for record in self.own if record.tool is not None]
        return (*runs, *([Program(evidence.code or "", evidence.tool)] if evidence.tool is not None else ()))

    @cached_property
    def words(self) -> str:
        """What this segment has said so far, this action included, without thinking: an order reads it."""
        return "\n".join(text for text in (*(record.answer for record in self.own), self.answer) if text)

    @cached_property
    def closing(self) -> bool:
        """Whether nobody acts after this segment, if it ends with this action."""
        history = self.evidence.history
        if not history:
            return len(self.team.names) == 1
        ended = revised(history[-1], agent=self.me, answer=self.answer, last_turn=True)
        return self.order.over((*history, ended))

    def mine(self, path: str) -> bool:
        """Whether ``path`` is an existing file that this agent wrote last, be it with the same content."""
        change = self.evidence.present.get(path)
        again = (change.path for run in self.programs for change in run.tool.files)
        return change is not None and change.kind == "file" and (change.agent == self.me or path in again)


def start_of(history: Sequence[ActionRecord], agent: str) -> int:
    """Where the segment of ``agent`` begins that goes on, or could, after ``history``."""
    start = len(history)
    while start and history[start - 1].agent == agent and not history[start - 1].last_turn:
        start -= 1
    return start


def deleted_by(tool: ToolResult | None) -> frozenset[str]:
    """The paths that a run removed."""
    return frozenset(tool.deleted) if tool is not None else frozenset()
