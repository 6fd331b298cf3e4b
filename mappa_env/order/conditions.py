"""What an order branches on: what agents have said or what the host saw of their code."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from mappa_env.grading.reading import stated
from mappa_env.order.segments import Segment
from mappa_env.parsing import in_fence
from mappa_env.types import RunStatus

READ = 2000
"""Characters at the end of a segment in which an agent can say something: reading them is cheap."""
_LINE = re.compile(r"[ \t*_]{0,20}([^\W\d_]{1,40})[ \t*_]{0,20}:[ \t*_]{0,20}([^ \t]{1,80})")
_FENCE = re.compile(r"^[^\S\n]*```[^\n]*", re.MULTILINE)
_AROUND = ".,;:!?\"'()[]<>*`_“”‘’"


@dataclass(frozen=True, slots=True)
class Says:
    """The newest segment of ``agent`` says ``value`` after ``key`` (see ``said``)."""

    agent: str
    key: str
    value: str

    def holds(self, past: Sequence[Segment]) -> bool:
        """Whether it holds after the segments in ``past``."""
        newest = _newest(past, self.agent)
        return newest is not None and said(newest.text, self.key) == word(self.value)


@dataclass(frozen=True, slots=True)
class Status:
    """The last code that ``agent`` ran in its newest segment ended with ``status``."""

    agent: str
    status: RunStatus

    def holds(self, past: Sequence[Segment]) -> bool:
        """Whether it holds after the segments in ``past``."""
        newest = _newest(past, self.agent)
        tools = [action.tool for action in newest.actions if action.tool] if newest else []
        return bool(tools) and tools[-1].status == self.status


@dataclass(frozen=True, slots=True)
class Agree:
    """The newest segments of all ``agents`` state answers of one value (``mappa_env.grading.reading``)."""

    agents: tuple[str, ...]

    def holds(self, past: Sequence[Segment]) -> bool:
        """Whether it holds after the segments in ``past``; not before each of the agents has answered."""
        newest = [_newest(past, agent) for agent in self.agents]
        values = {_answer(segment.text[-READ:]) if segment else None for segment in newest}
        return None not in values and len(values) == 1


Condition = Says | Status | Agree


def said(text: str, key: str) -> str:
    """The first word of the last line ``<key>: ...``, without what is around it, folded; empty: none.

    Lines in code fences and quotations do not count, nor does what is before the last ``READ`` characters.
    """
    cut = max(len(text) - READ, 0)
    if cut:  # whole lines
        cut = text.find("\n", cut) + 1 or len(text)
    fenced = False
    for mark in _FENCE.finditer(text, 0, cut):
        fenced = in_fence(mark.group(), fenced)
    return _said(text[cut:], key.casefold(), fenced)


def word(text: str) -> str:
    """A word without quotation marks, brackets and punctuation around it, folded."""
    return text.strip(_AROUND).casefold()


@lru_cache(maxsize=4096)  # an order looks at the same segments again after every action
def _said(text: str, key: str, fenced: bool) -> str:
    found = ""
    for line in text.split("\n"):
        match = None if fenced else _LINE.match(line)
        fenced = in_fence(line, fenced)
        if match is not None and match[1].casefold() == key:
            found = word(match[2].rstrip())
    return found


@lru_cache(maxsize=4096)
def _answer(text: str) -> object:
    found = stated(text)
    if found is None:
        return None
    return found.number if found.number is not None else found.text.casefold()


def _newest(past: Sequence[Segment], agent: str) -> Segment | None:
    return next((segment for segment in reversed(past) if segment.agent == agent), None)
