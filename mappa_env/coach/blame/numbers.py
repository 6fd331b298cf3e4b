"""Backward tracing along numbers: from a wrong boxed answer to the action where the wrong value came in.

It needs no hidden truth. The answer is known to be wrong, so the agent that changed the value on its way is
responsible; if nobody changed it, the agent that planned it is. Where nobody runs code, those are that stated
the answer without having seen it. Only what the graded action could know is on its way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from mappa_env.coach.blame.origin import origins
from mappa_env.coach.rubric.broken_plan import stopped
from mappa_env.coach.rubric.case import Case
from mappa_env.coach.rubric.claims_math import (
    FORMS,
    Statement,
    answers_of,
    box_in,
    declined,
    output_of,
    own,
    planned_in,
    report_in,
    result_in,
    same,
    short,
)
from mappa_env.types import ActionRecord, Link


class _At(NamedTuple):
    step: int
    said: Statement


class NumberWalk:
    """Traces a failed episode through its numbers. ``cases``: all its actions; ``links``: the walk so far.

    ``end``: the step of the action whose answer was graded; ``status``: the grader's. ``links`` run from
    there to the cause.
    """

    def __init__(self, cases: Sequence[Case], actions: Sequence[ActionRecord], end: int, status: str) -> None:
        self._cases, self._end, self._status = cases, end, status
        self._actions = {record.step: record for record in (*cases[end].seen, actions[end])}
        self.links: list[Link] = []

    def run(self) -> tuple[int, ...]:
        """The steps of the responsible actions, all equally; empty if the record does not decide.

        It does not where a value was handed on and boxed in a form that is not graded: without the truth,
        either may be wrong.
        """
        found, closing = self._walk(), self._cases[self._end]
        box = box_in(closing.me, closing.answer)
        valued = box is not None and box.number is not None
        own = any(self._actions[step].agent == closing.me for step in found)
        if own or not (valued and found and self._status in FORMS):
            return found
        self.links.append(Link(self._end, "boxed it in a form that is not graded, be it right or not"))
        return ()

    def _walk(self) -> tuple[int, ...]:
        end, closing = self._end, self._cases[self._end]
        box = box_in(closing.me, closing.answer)
        ran = max((step for step, record in self._actions.items() if record.tool is not None), default=None)
        plan = None if ran is None else self._plan(ran)
        planned = None if plan is None else plan.said
        worker = None if ran is None else self._actions[ran].agent
        result = self._last(lambda record: own(_result(record, worker), planned), after=ran)
        output = None if ran is None else self._output(ran, planned, None if result is None else result.said)
        reported = result is not None and result.said.number is not None
        printed = output is not None and (
            output.said.number is not None or (box is not None and same(box, output.said))
        )
        if not reported and not printed:
            return self._nothing(ran)
        if box is None:
            return self._blamed(end, r"there is no \boxed{} answer")
        if result is not None and result.step != end and same(box, result.said):
            self.links.append(Link(end, f"boxed the reported value {short(box)}"))
            if output is not None and not same(output.said, result.said):
                return self._blamed(result.step, f"reported {short(result.said)}, not the output")
        elif output is not None and same(box, output.said):
            self.links.append(Link(end, f"boxed the printed value {short(box)}"))
        elif any(same(box, said.said) for said in self._others(worker, after=ran)):
            return self._stated(box)
        elif declined(box) and output is not None and _differ(planned, output.said):
            self.links.append(Link(end, f"declined to answer with {short(output.said)}"))
        else:
            return self._blamed(end, f"boxed {short(box)}, which nobody handed on")
        return self._computed(output) if output is not None else ()

    def _computed(self, output: _At) -> tuple[int, ...]:
        plan = self._plan(output.step)
        if plan is None:
            self.links.append(
                Link(output.step, f"printed {short(output.said)}; there is no plan to compare it with")
            )
            return ()
        if plan.said.number is None:
            return self._blamed(plan.step, f"planned {short(plan.said)}, which has no value")
        if not same(plan.said, output.said):
            what = f"printed {short(output.said)}, which is not the value of the plan"
            return self._blamed(output.step, what)
        self.links.append(Link(output.step, f"computed the plan: {short(output.said)}"))
        return self._blamed(plan.step, f"planned {short(plan.said)}")

    def _nothing(self, ran: int | None) -> tuple[int, ...]:
        """No value reached the closing agent."""
        if ran is None:
            tooled = [step for step in self._actions if self._cases[step].evidence.agent.tools]
            if tooled:
                return self._blamed(tooled[-1], "ran no code")
            box = box_in(self._actions[self._end].agent, self._actions[self._end].answer)
            if box is None:
                return self._blamed(self._end, r"there is no \boxed{} answer")
            return self._stated(box)
        tool, plan = self._actions[ran].tool, self._plan(ran)
        assert tool is not None
        if plan is not None and stopped(plan.said, tool, self._actions[ran].code):
            self.links.append(Link(ran, f"carried out the plan, which failed ({tool.status})"))
            return self._blamed(plan.step, f"planned {short(plan.said)}, which has no value")
        last = max(step for step, record in self._actions.items() if record.agent == self._actions[ran].agent)
        if last != ran and report_in(self._actions[last].agent, self._actions[last].answer) is None:
            return self._blamed(last, "ended the stay with neither code that ran nor a result")
        if tool.status == "ok":
            return self._blamed(ran, "its code printed no value")
        return self._blamed(ran, f"its code failed ({tool.status})")

    def _stated(self, box: Statement) -> tuple[int, ...]:
        """Who brought up the boxed answer: those who stated it when nobody had, as far as they could know."""
        answers = {step: _answer(record) for step, record in self._actions.items()}
        stated = {step for step, said in answers.items() if said is not None and same(said, box)}
        first = origins(self._cases, self._end, stated)
        if self._end not in first:
            self.links.append(Link(self._end, f"boxed the stated answer {short(box)}"))
        self.links += [Link(step, f"brought up the answer {short(box)}") for step in reversed(first)]
        return first

    def _others(self, worker: str | None, after: int | None) -> list[_At]:
        """The answers that others than the ``worker`` have stated since."""
        found = []
        for step, record in self._actions.items():
            if step > (-1 if after is None else after) and step != self._end and record.agent != worker:
                said = _answer(record)
                found += [_At(step, said)] if said is not None else []
        return found

    def _plan(self, run: int) -> _At | None:
        """What the run at step ``run`` had to carry out: the plan before the first run, or its revision."""
        first = next((step for step, record in self._actions.items() if record.tool is not None), None)
        plan = self._last(lambda record: planned_in(record.agent, record.answer), before=first)
        workers = {record.agent for record in self._actions.values() if record.tool is not None}
        if plan is None or plan.said.agent in workers:
            return plan
        planner = plan.said.agent
        again = self._last(
            lambda record: planned_in(record.agent, record.answer) if record.agent == planner else None,
            after=first,
            before=run,
        )
        return again or plan

    def _output(self, step: int, plan: Statement | None, result: Statement | None) -> _At | None:
        record = self._actions[step]
        said = output_of(record.agent, record.tool, plan, None, result) if record.tool is not None else None
        return None if said is None else _At(step, said)

    def _last(
        self,
        find: Callable[[ActionRecord], Statement | None],
        after: int | None = None,
        before: int | None = None,
    ) -> _At | None:
        for step, record in reversed(self._actions.items()):
            if (before is not None and step >= before) or (after is not None and step <= after):
                continue
            said = find(record)
            if said is not None:
                return _At(step, said)
        return None

    def _blamed(self, step: int, why: str) -> tuple[int, ...]:
        self.links.append(Link(step, why))
        return (step,)


def _differ(plan: Statement | None, output: Statement) -> bool:
    """Whether the output is not the value of the plan."""
    return plan is not None and plan.number is not None and not same(plan, output)


def _answer(record: ActionRecord) -> Statement | None:
    return answers_of([record]).get(record.agent)


def _result(record: ActionRecord, worker: str | None) -> Statement | None:
    """The reported result of the agent that ran code; what others repeat is not a report."""
    if worker is None:
        return result_in(record.agent, record.answer)
    return report_in(record.agent, record.answer) if worker == record.agent else None
