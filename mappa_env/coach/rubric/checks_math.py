"""Checks for teams that answer mathematics: a plan, code that computes it, a boxed answer.

Where the evidence carries the hidden truth, work is judged by it; where it does not, by form and agreement.
"""

from __future__ import annotations

from mappa_env.coach.case import Case, Finding, exception_of
from mappa_env.coach.chain import (
    Chain,
    Said,
    chain_of,
    is_right,
    number_in,
    output_of,
    plan_in,
    result_in,
    same,
)
from mappa_env.grading.math import grade_answer
from mappa_env.parsing import last_boxed
from mappa_env.types import ToolResult

MIN_PROSE = 40
"""Characters below which a plan in prose is no plan at all."""
_BLUNDERS = {"SyntaxError", "IndentationError", "TabError"}


def math_plan(case: Case, *, wrong: float = 0.2, unreadable: float = 0.1) -> Finding:
    """The value of a ``plan:`` line, else of the last box, against the truth (without one: its form)."""
    gold, plan = _gold(case), plan_in(case.me, case.answer)
    if plan is not None and plan.number is None:
        return Finding(unreadable, f"the plan {_short(plan)} is no expression that can be evaluated", case.me)
    if plan is not None:
        if gold is None:
            return Finding(1.0, f"the plan {_short(plan)} can be evaluated")
        if is_right(plan, gold):
            return Finding(1.0, f"the plan {_short(plan)} is right")
        return Finding(wrong, f"the plan {_short(plan)} gives a wrong value", case.me)
    box = last_boxed(case.answer[-20_000:])
    if box is not None and gold is not None:
        if grade_answer(case.answer, gold).correct:
            return Finding(1.0, "the boxed answer is right")
        return Finding(wrong, "the boxed answer is wrong", case.me)
    if len(case.answer) < MIN_PROSE:
        return Finding(0.0, "there is no plan", case.me)
    # Never above a wrong plan: a plan that hides what can be checked must not pay.
    return Finding(unreadable, "the plan holds no `plan:` line that could be checked")


def math_code(
    case: Case,
    *,
    wrong: float = 0.2,
    followed: float = 0.8,
    silent: float = 0.1,
    crashed: float = 0.1,
    blundered: float = 0.05,
    misreported: float = 0.1,
) -> Finding:
    """What the code printed against the truth and the plan; a turn without code by the report it makes."""
    tool, gold, chain = case.evidence.tool, _gold(case), chain_of(case.evidence.history)
    if tool is None:
        return _report(case, chain, gold, misreported)
    if tool.status != "ok":
        blunder = tool.status != "error" or exception_of(tool)[0] in _BLUNDERS
        plan = chain.plan
        if plan is not None and plan.number is None and plan.text in (case.evidence.code or ""):
            return Finding(0.5, f"the plan was carried out but cannot run: {_how(tool)}", plan.agent)
        return Finding(blundered if blunder else crashed, f"the code failed: {_how(tool)}", case.me)
    output = output_of(case.me, tool)
    if output is None:
        return Finding(silent, "the code ran but printed nothing", case.me)
    if gold is None:
        return _unchecked_output(case, chain, output, wrong)
    if is_right(output, gold):
        return Finding(1.0, f"the code printed {_short(output)}, which is right")
    culprit = _origin(Chain(chain.plan, output, None, case.me), gold)
    if culprit != case.me:
        return Finding(followed, f"the code carries out a wrong plan: it printed {_short(output)}", culprit)
    return Finding(wrong, f"the code printed {_short(output)}, which is wrong", case.me)


def _unchecked_output(case: Case, chain: Chain, output: Said, wrong: float) -> Finding:
    plan = chain.plan
    if plan is not None and plan.number is not None and not same(plan, output):
        return Finding(wrong, f"the code printed {_short(output)}, which is not the plan's value", case.me)
    return Finding(1.0, f"the code printed {_short(output)}")


def _report(case: Case, chain: Chain, gold: str | None, wrong: float) -> Finding:
    """A turn without code: nothing before the first run, afterwards the report of what was printed."""
    if case.last_tool is None:
        return Finding(0.0, "no code was run, although this work needs it", case.me)
    result = result_in(case.me, case.answer) or _boxed(case) or _last_number(case)
    if result is None:
        return Finding(0.0, "the turn reports no result", case.me)
    right = gold is not None and is_right(result, gold)
    output = chain.output
    if output is None:
        earlier = case.own[-1].verdict.blame or case.me
        if right:
            return Finding(0.5, "the reported result is right, but no run printed it")
        return Finding(wrong, f"no run printed a result; reported was {_short(result)}", earlier)
    if same(result, output):
        blame = None if gold is None or right else _origin(chain, gold)
        return Finding(1.0, f"the report {_short(result)} is what the code printed", blame)
    if right:
        return Finding(1.0, "the report corrects a wrong output")
    return Finding(wrong, f"the report {_short(result)} is not the output, {_short(output)}", case.me)


def math_answer(
    case: Case, *, wrong: float = 0.1, followed: float = 0.8, careless: float = 0.5, blocked: float = 0.4
) -> Finding:
    """The boxed answer against the truth and what reached this agent.

    ``followed``: the box repeats the wrong value that all upstream agreed on. ``careless``: it repeats a
    report that the printed output contradicts. ``blocked``: upstream handed on no value at all.
    """
    gold, chain = _gold(case), chain_of(case.evidence.history)
    box = _boxed(case)
    if box is None:
        return Finding(0.0, r"there is no \boxed{} answer", case.me)
    if gold is not None and _answers(case, gold):
        return Finding(1.0, "the boxed answer is right")
    output, result = chain.output, chain.result
    if result is not None and result.number is None and output is None:
        result = None  # "result: none" hands nothing on
    reached = [said for said in (output, result) if said is not None]
    if not reached:
        return Finding(blocked, "no value was handed on to answer with", chain.ran or _computer(case))
    if not any(same(box, said) for said in reached):
        said = _short(reached[-1])
        return Finding(wrong, f"the box {_short(box)} is not the value that was handed on, {said}", case.me)
    torn = output is not None and result is not None and not same(output, result)
    if torn:
        assert result is not None
        blame = _origin(chain, gold) if gold is not None and not same(box, result) else result.agent
        return Finding(careless, "the box takes one side where output and report differ", blame)
    if gold is None:
        return Finding(1.0, "the box is the value that was handed on")
    return Finding(followed, "the box repeats the wrong value that was handed on", _origin(chain, gold))


def _origin(chain: Chain, gold: str) -> str | None:
    """Who first brought in the wrong value: the planner if the plan is wrong and was followed, the reporter
    if the output was right, else who ran the code."""
    plan, output = chain.plan, chain.output
    if output is not None and chain.result is not None and is_right(output, gold):
        return chain.result.agent
    if output is None or plan is None or plan.number is None:
        return chain.ran
    return plan.agent if not is_right(plan, gold) and same(plan, output) else output.agent


def _computer(case: Case) -> str | None:
    """The last agent before this one that has a tool, else the one just before."""
    before = case.team.agents[: case.team.names.index(case.me)]
    tooled = [spec.name for spec in before if spec.tools] or [spec.name for spec in before]
    return tooled[-1] if tooled else None


def _answers(case: Case, gold: str) -> bool:
    """Whether the box is right; the grader has already decided that at the closing action."""
    outcome = case.evidence.outcome
    return outcome.success if outcome is not None else grade_answer(case.answer, gold).correct


def _gold(case: Case) -> str | None:
    truth = case.evidence.truth
    return str(truth["answer"]) if truth is not None and "answer" in truth else None


def _boxed(case: Case) -> Said | None:
    box = last_boxed(case.answer[-20_000:])
    return None if box is None else Said(case.me, box.strip()[:200], number_in(box))


def _last_number(case: Case) -> Said | None:
    lines = case.answer.strip().splitlines()
    number = number_in(lines[-1]) if lines else None
    return None if number is None else Said(case.me, str(number), number)


def _how(tool: ToolResult) -> str:
    return exception_of(tool)[1] or tool.status


def _short(said: Said) -> str:
    return repr(said.text if len(said.text) <= 60 else said.text[:57] + "...")
