"""The values that reach an agent that answers: of the plan, of the output, of the report on it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from mappa_env.coach.rubric.broken_plan import stopped
from mappa_env.coach.rubric.case import Case, Finding
from mappa_env.coach.rubric.claims_math import (
    Chain,
    Statement,
    chain_of,
    declined,
    is_right,
    same,
    short,
)
from mappa_env.grading.expression import Number
from mappa_env.grading.reading import numbers_in


def gold_of(case: Case) -> str | None:
    """The true answer; None if this verdict may not use it."""
    truth = case.evidence.truth
    return str(truth["answer"]) if truth is not None and "answer" in truth else None


class HandedOn(NamedTuple):
    """What this agent could see; None: it has no value, or is this agent's own.

    ``shown``: the program printed the report's value, so the report may be what the program means to say.
    """

    chain: Chain
    plan: Statement | None
    output: Statement | None
    result: Statement | None
    shown: bool

    @property
    def computed(self) -> list[Statement]:
        """The output and its report."""
        return [said for said in (self.output, self.result) if said is not None]

    @property
    def known(self) -> list[Statement]:
        """What was computed, and the plan; empty if nothing was computed."""
        return [*self.computed, *([self.plan] if self.plan is not None and self.computed else [])]


def handed_on(case: Case, answer: Statement) -> HandedOn:
    """What reached this agent. Words pass no value on, unless its ``answer`` is these words."""
    chain = chain_of(case.seen, gold_of(case))

    def valued(said: Statement | None) -> Statement | None:
        return said if said is not None and (said.number is not None or same(answer, said)) else None

    output, result, plan = valued(chain.output), valued(chain.result), chain.plan
    if output is None and result is not None and result.number is None:
        result = None  # "result: none" passes nothing on
    if plan is not None and (plan.number is None or plan.agent == case.me):
        plan = None
    run = next((record.tool for record in reversed(case.seen) if record.tool is not None), None)
    shown = run is not None and result is not None and result.number in numbers_in(run.stdout)
    return HandedOn(chain, plan, output, result, shown)


class Points(NamedTuple):
    """What a wrong answer earns (0-1).

    ``wrong``: nothing that its agent could see has its value. ``followed``: all of that has. ``coasted``: the
    plan or the output has another value, which is right, so a look at it would have helped. ``careless``: the
    values differ, and it takes one. To decline wrong values earns one of the last two.
    """

    wrong: float
    followed: float
    careless: float
    coasted: float


def carried_on(case: Case, answer: Statement, given: HandedOn, gold: str | None, points: Points) -> Finding:
    """Judge an ``answer`` that is wrong, or cannot be checked without ``gold``, by what reached its agent."""
    chain, plan, output = given.chain, given.plan, given.output
    said = f"the answer {short(answer)}"
    if gold is not None and _is_misshapen(answer, given.known, gold):
        return Finding(points.wrong, f"{said} is right in value, but not in a form that is graded", case.me)
    if not any(same(answer, each) for each in given.computed):
        last = given.computed[-1]
        right = gold is not None and any(is_right(each, gold) for each in given.computed)
        if plan is not None and same(answer, plan) and not right:
            return Finding(points.careless, f"{said} is that of the plan, and not {short(last)}", plan.agent)
        if gold is not None and not right and declined(answer):
            shown = plan is not None and is_right(plan, gold)
            score = points.coasted if shown else points.careless
            return Finding(score, f"{said} declines a wrong value, {short(last)}", origin_of(chain, gold))
        return Finding(points.wrong, f"{said} is not the value that was handed on, {short(last)}", case.me)
    torn = "takes one side where what was handed on differs"
    if gold is None:
        if all(same(answer, each) for each in given.computed):
            return Finding(1.0, f"{said} is the value that was handed on")
        return Finding(points.careless, f"{said} {torn}", given.computed[-1].agent)
    source = origin_of(chain, gold)
    others = [each for each in given.known if not same(answer, each)]
    if not others:
        return Finding(points.followed, f"{said} repeats the wrong value that was handed on", source)
    plain = [plan, None if given.shown else output]
    if any(each is not None and each in others and is_right(each, gold) for each in plain):
        return Finding(points.coasted, f"{said} {torn}, and a look at that would have shown it wrong", source)
    return Finding(points.careless, f"{said} {torn}", source)


def _is_misshapen(answer: Statement, known: Iterable[Statement], gold: str) -> bool:
    """Whether an answer has a right value that was handed on, and its form is what is wrong."""
    return any(same(answer, each) and is_right(each, gold) for each in known)


def origin_of(chain: Chain, gold: str) -> str | None:
    """The agent that introduced the wrong value; None: every value that was handed on is right.

    The planner if the plan is wrong and was followed, be it a formula in its words; the reporter if the
    output was right; else the agent that ran the code. Empty: the host understood some steps of a plan, and
    none of them is right, so nobody can tell.
    """
    plan, output = chain.plan, chain.output
    if output is not None and is_right(output, gold):
        right = chain.result is None or is_right(chain.result, gold)
        return None if right or chain.result is None else chain.result.agent
    if output is not None and (plan is None or plan.number is None) and chain.prose is not None:
        planner, formula = chain.prose
        if formula_is_right(formula.every, gold):
            return output.agent
        followed = any(same(output, Statement("", "", value)) for value in formula.every)
        if followed and formula.whole:
            return planner
        in_steps = plan is not None and plan.in_steps
        return "" if followed or (in_steps and not formula.whole) else output.agent
    if output is None or plan is None or plan.number is None:
        return chain.ran
    return plan.agent if not is_right(plan, gold) and same(plan, output) else output.agent


def formula_is_right(values: Iterable[Number], gold: str) -> bool:
    """Whether one of the values of a plan's formulas is the answer."""
    return any(is_right(Statement("", "", value), gold) for value in values)


def stopper_of(case: Case) -> str | None:
    """Who planned what the last run could not carry out; None: it failed for a reason of its own."""
    run = next((record for record in reversed(case.seen) if record.tool is not None), None)
    plan = chain_of(case.seen).plan
    if plan is None or run is None or run.tool is None:
        return None
    return plan.agent if stopped(plan, run.tool, run.code) else None
