"""Backward tracing along words: who brought up the wrong answer of a team that looks things up.

It needs no hidden truth. The answer is known to be wrong, so the agent that reported it first is responsible,
or the one that never reported. A result of a tool, and an action that still calls one, report nothing: to
take the wrong part of a result is the agent's doing.
"""

from __future__ import annotations

from collections.abc import Sequence

from mappa_env.coach.blame.origin import origins
from mappa_env.coach.rubric.case import Case
from mappa_env.coach.rubric.claims_math import box_in, short
from mappa_env.grading.text import plain
from mappa_env.types import ActionRecord, Link


class WordWalk:
    """Traces a failed episode through the words of its answer. See ``NumberWalk`` for the arguments."""

    def __init__(self, cases: Sequence[Case], actions: Sequence[ActionRecord], end: int) -> None:
        self._cases, self._actions, self._end = cases, actions, end
        self.links: list[Link] = []

    def run(self) -> tuple[int, ...]:
        """The steps of the responsible actions, all equally."""
        closing, seen = self._actions[self._end], self._cases[self._end].seen
        last = {record.agent: record for record in seen}
        silent = [record.step for record in last.values() if record.calls and record.agent != closing.agent]
        if silent:
            return self._blamed(silent[-1], "ended the segment without a report")
        box = box_in(closing.agent, closing.answer)
        words = "" if box is None else plain(box.text)
        if box is None or not words:
            return self._blamed(self._end, r"there is no \boxed{} answer")
        stated = {r.step for r in seen if not r.calls and f" {words} " in f" {plain(r.answer)} "}
        found = origins(self._cases, self._end, stated)
        if found == (self._end,):
            idle = self._idle()
            if idle is not None:
                return self._blamed(idle, "called no tool, and the boxed answer is not its own")
            return self._blamed(self._end, f"boxed {short(box)}, which nobody handed on")
        self.links.append(Link(self._end, f"boxed the stated answer {short(box)}"))
        self.links += [Link(step, f"brought up the answer {short(box)}") for step in reversed(found)]
        return found

    def _idle(self) -> int | None:
        """The last action of an agent that the end could see, and that has tools and never called one."""
        seen = self._cases[self._end].seen
        called = {record.agent for record in seen if record.calls}
        idle = (r.step for r in reversed(seen) if self._cases[r.step].evidence.agent.tools)
        return next((step for step in idle if self._actions[step].agent not in called), None)

    def _blamed(self, step: int, why: str) -> tuple[int, ...]:
        self.links.append(Link(step, why))
        return (step,)
