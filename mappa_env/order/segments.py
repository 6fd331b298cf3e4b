"""Segments: an agent's consecutive actions, up to the one that ends them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from mappa_env.types import ActionRecord


class Segment(NamedTuple):
    """The ``actions`` of ``agent``, in order. The last one of a finished segment ends it."""

    agent: str
    actions: tuple[ActionRecord, ...]

    @property
    def text(self) -> str:
        """Its answers, without thinking, joined by line breaks."""
        return "\n".join(action.answer for action in self.actions if action.answer)

    @property
    def finished(self) -> bool:
        """Whether its last action ended it."""
        return self.actions[-1].last_turn


def segments_of(actions: Sequence[ActionRecord]) -> list[Segment]:
    """All segments of an episode in order; only the last one may be unfinished."""
    found: list[Segment] = []
    begun: tuple[ActionRecord, ...] = ()
    for action in actions:
        begun = (*begun, action)
        if action.last_turn:
            found.append(Segment(action.agent, begun))
            begun = ()
    if begun:
        found.append(Segment(begun[0].agent, begun))
    return found
