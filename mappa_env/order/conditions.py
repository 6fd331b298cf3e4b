"""What an order branches on: what agents have said or what the host saw of their code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mappa_env.grading.reading import given, labelled
from mappa_env.order.segments import Segment
from mappa_env.types import RunStatus


@dataclass(frozen=True, slots=True)
class Says:
    """The newest segment of ``agent`` has the line ``<key>: <value>``, in any case; the last one counts."""

    agent: str
    key: str
    value: str

    @property
    def agents(self) -> tuple[str, ...]:
        """The agents that it looks at."""
        return (self.agent,)

    def holds(self, past: Sequence[Segment]) -> bool:
        """Whether it holds after the segments in ``past``."""
        newest = _newest(past, self.agent)
        return newest is not None and said(newest, self.key) == self.value.casefold()


@dataclass(frozen=True, slots=True)
class Status:
    """The last code that ``agent`` ran in its newest segment ended with ``status``."""

    agent: str
    status: RunStatus

    @property
    def agents(self) -> tuple[str, ...]:
        """The agents that it looks at."""
        return (self.agent,)

    def holds(self, past: Sequence[Segment]) -> bool:
        """Whether it holds after the segments in ``past``."""
        newest = _newest(past, self.agent)
        tools = [action.tool for action in newest.actions if action.tool] if newest else []
        return bool(tools) and tools[-1].status == self.status


@dataclass(frozen=True, slots=True)
class Agree:
    """The newest segments of all ``agents`` give answers of one value (``mappa_env.grading.reading``)."""

    agents: tuple[str, ...]

    def holds(self, past: Sequence[Segment]) -> bool:
        """Whether it holds after the segments in ``past``; not before each of the agents has answered."""
        newest = [_newest(past, agent) for agent in self.agents]
        answers = [given(segment.text) if segment else None for segment in newest]
        values = {answer.number if answer.number is not None else answer.text for answer in answers if answer}
        return None not in answers and len(values) == 1


Condition = Says | Status | Agree


def said(segment: Segment, key: str) -> str:
    """The first word of what follows the last ``<key>:`` at the start of a line, folded; empty: none."""
    found = labelled(segment.text, key)
    words = found.text.split() if found is not None else []
    return words[0].strip(".,;:!\"'()*`").casefold() if words else ""


def _newest(past: Sequence[Segment], agent: str) -> Segment | None:
    return next((segment for segment in reversed(past) if segment.agent == agent), None)
