"""Backward tracing along numbers: from a wrong boxed answer to the action where the wrong value came in.

It needs no hidden truth. The answer is known to be wrong, so the agent that changed the value on its way is
responsible; if nobody changed it, the agent that planned it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from mappa_env.coach.rubric.case import Case
from mappa_env.coach.rubric.claims_math import (
    Statement,
    box_in,
    output_of,
    planned_in,
    report_in,
    result_in,
    same,
)
from mappa_env.types import ActionRecord, Link


class _At(NamedTuple):
    step: int
    said: Statement


class NumberWalk:
    """Traces a failed episode through its numbers. ``cases``: all its actions; ``links``: the walk so far.

    ``links`` run from the end of the episode to the cause.
    """

    def __init__(self, cases: Sequence[Case], actions: Sequence[ActionRecord]) -> None:
        self._cases, self._actions = cases, actions
        self.links: list[Link] = []

    def run(self) -> tuple[int, ...]:
        """The step of the responsible action; empty if the record does not decide."""
        closing = self._cases[-1]
        end = len(self._cases) - 1
        ran = max((i for i, record in enumerate(self._actions) if record.tool is not None), default=None)
        output = None if ran is None else self._output(ran)
        worker = None if ran is None else self._actions[ran].agent
        result = self._last(lambda record: _result(record, worker), after=ran)
        box = box_in(closing.me, closing.answer)
        reported = result is not None and result.said.number is not None
        printed = output is not None and (
            output.said.number is not None or (box is not None and same(box, output.said))
        )
        if not reported and not printed:
            return self._nothing(ran)
        if box is None:
            return self._blamed(end, r"there is no \boxed{} answer")
        if result is not None and result.step != end and same(box, result.said):
            self.links.append(Link(end, f"boxed the reported value {_short(box)}"))
            if output is not None and not same(output.said, result.said):
                return self._blamed(result.step, f"reported {_short(result.said)}, not the output")
        elif output is not None and same(box, output.said):
            self.links.append(Link(end, f"boxed the printed value {_short(box)}"))
        else:
            return self._blamed(end, f"boxed {_short(box)}, which nobody handed on")
        return self._computed(output) if output is not None else ()

    def _computed(self, output: _At) -> tuple[int, ...]:
        plan = self._plan()
        if plan is None:
            self.links.append(
                Link(output.step, f"printed {_short(output.said)}; there is no plan to hold it to")
            )
            return ()
        if plan.said.number is None:
            return self._blamed(plan.step, f"planned {_short(plan.said)}, which has no value")
        if not same(plan.said, output.said):
            what = f"printed {_short(output.said)}, which is not the value of the plan"
            return self._blamed(output.step, what)
        self.links.append(Link(output.step, f"computed the plan: {_short(output.said)}"))
        return self._blamed(plan.step, f"planned {_short(plan.said)}")

    def _nothing(self, ran: int | None) -> tuple[int, ...]:
        """No value reached the closing agent."""
        if ran is None:
            tooled = [i for i, case in enumerate(self._cases) if case.evidence.agent.tools]
            return self._blamed(tooled[-1], "ran no code") if tooled else ()
        tool, code, plan = self._actions[ran].tool, self._actions[ran].code or "", self._plan()
        assert tool is not None
        last = max(record.step for record in self._actions if record.agent == self._actions[ran].agent)
        if last != ran and report_in(self._actions[last].agent, self._actions[last].answer) is None:
            return self._blamed(last, "ended the stay with neither code that ran nor a result")
        if tool.status == "ok":
            return self._blamed(ran, "its code printed no value")
        if plan is not None and plan.said.number is None and plan.said.text in code:
            self.links.append(Link(ran, f"carried out the plan, which failed ({tool.status})"))
            return self._blamed(plan.step, f"planned {_short(plan.said)}, which has no value")
        return self._blamed(ran, f"its code failed ({tool.status})")

    def _plan(self) -> _At | None:
        first = next((i for i, record in enumerate(self._actions) if record.tool is not None), None)
        return self._last(lambda record: planned_in(record.agent, record.answer), before=first)

    def _output(self, step: int) -> _At | None:
        record = self._actions[step]
        said = output_of(record.agent, record.tool) if record.tool is not None else None
        return None if said is None else _At(step, said)

    def _last(
        self,
        find: Callable[[ActionRecord], Statement | None],
        after: int | None = None,
        before: int | None = None,
    ) -> _At | None:
        end = len(self._actions) if before is None else before
        for step in range(end - 1, -1 if after is None else after, -1):
            said = find(self._actions[step])
            if said is not None:
                return _At(step, said)
        return None

    def _blamed(self, step: int, why: str) -> tuple[int, ...]:
        self.links.append(Link(step, why))
        return (step,)


def _result(record: ActionRecord, worker: str | None) -> Statement | None:
    """The reported result of the agent that ran code; what others repeat is not a report."""
    if worker is None:
        return result_in(record.agent, record.answer)
    return report_in(record.agent, record.answer) if worker == record.agent else None


def _short(said: Statement) -> str:
    return repr(said.text if len(said.text) <= 60 else said.text[:57] + "...")
