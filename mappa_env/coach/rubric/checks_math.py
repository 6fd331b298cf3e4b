"""Checks for teams that solve mathematics problems: a plan, code that computes it, a boxed answer.

With the hidden truth in the evidence, checks compare with it; without it, they check form and agreement.
"""

from __future__ import annotations

import dataclasses

from mappa_env.coach.program import exception_of
from mappa_env.coach.rubric.broken_plan import stopped
from mappa_env.coach.rubric.case import Case, Finding
from mappa_env.coach.rubric.claims_math import (
    Chain,
    Statement,
    box_in,
    chain_of,
    formula_in,
    has_steps,
    is_right,
    output_of,
    own,
    plan_in,
    report_in,
    same,
    short,
    stated_in,
    untold,
    worded_in,
)
from mappa_env.coach.rubric.handed_on import (
    Points,
    carried_on,
    formula_is_right,
    gold_of,
    handed_on,
    origin_of,
    stopper_of,
)
from mappa_env.grading.math import grade_answer
from mappa_env.types import ToolResult


def math_plan(case: Case, *, wrong: float = 0.1, unreadable: float = 0.05) -> Finding | None:
    """Check the value of a ``plan:`` line, else of the answer that the text states, against the truth.

    Else that of the last step of a plan, or of the formula with which a plan in words ends.

    Without the truth: the form. None: an expression that the host can neither evaluate nor find to fail; a
    method in numbered steps, or without the truth an answer in another form, which cost only where the task
    is known to have a single expression, as the prompts ask for.
    """
    gold, plan, said = gold_of(case), plan_in(case.me, case.answer), stated_in(case.me, case.answer)
    if plan is not None and plan.number is not None:
        if gold is None:
            return Finding(1.0, f"the plan {short(plan)} can be evaluated")
        if is_right(plan, gold):
            return Finding(1.0, f"the plan {short(plan)} is right")
        return Finding(wrong, f"the plan {short(plan)} gives a wrong value", case.me)
    in_steps = plan is not None and plan.in_steps
    if said is not None and gold is not None and not in_steps:
        if is_right(said, gold):
            return Finding(1.0, f"the stated answer {short(said)} is right")
        if said.number is not None:
            return Finding(wrong, f"the stated answer {short(said)} is wrong", case.me)
    if not case.answer.strip():
        return Finding(0.0, "there is no plan", case.me)
    formula = formula_in(case.answer)
    if gold is not None and formula is not None:
        end = "the last step of the plan" if in_steps else "the formula at the end of the plan"
        if formula_is_right(formula.closing, gold):
            return Finding(1.0, f"{end} is right")
        if formula.whole and not formula_is_right(formula.every, gold):
            return Finding(wrong, f"{end} gives a wrong value", case.me)
    method = has_steps(case.answer)
    if (method or (said is not None and said.number is not None)) and "expr" not in case.evidence.task.meta:
        return None
    if plan is not None and untold(plan):
        return None
    # Never above a wrong plan: agents must not gain by hiding what can be checked.
    if plan is None:
        return Finding(unreadable, "the plan holds no `plan:` line that could be checked")
    return Finding(unreadable, f"the plan {short(plan)} is not an expression that can be evaluated", case.me)


def math_code(
    case: Case,
    *,
    wrong: float = 0.1,
    followed: float = 0.8,
    blocked: float = 0.6,
    unfinished: float = 0.2,
    failed: float = 0.1,
    repeated: float = 0.2,
) -> Finding:
    """Check the code's output against the truth and the plan; for a turn without code, check its report.

    ``followed``: it computed a wrong plan, or reports what that gave, or it reports the right value only in
    words. ``blocked``: it carried out a plan that cannot run, or of which the host understood only some
    steps, none of them right. ``unfinished``: the code failed or printed no value, and turns are left;
    ``failed``: none are.
    ``repeated``: it reports its own wrong output again.
    """
    tool, gold = case.evidence.tool, gold_of(case)
    chain = chain_of(case.seen, gold)
    if tool is None:
        return _report(
            case,
            chain,
            wrong=wrong,
            nothing=unfinished,
            blocked=blocked,
            followed=followed,
            repeated=repeated,
        )
    plan, output = chain.plan, output_of(case.me, tool, chain.plan, gold)
    if (
        plan is not None
        and stopped(plan, tool, case.evidence.code)
        and not (gold and output and is_right(output, gold))
    ):
        how = "it printed no value" if tool.status == "ok" else _how(tool)
        return Finding(blocked, f"the plan was carried out but cannot run: {how}", plan.agent)
    if tool.status != "ok":
        return Finding(failed if case.evidence.last_turn else unfinished, f"it failed: {_how(tool)}", case.me)
    before = chain.output if chain.ran == case.me else None
    if output is None:
        score = failed if case.evidence.last_turn else unfinished
        return Finding(score, "the code ran but printed nothing", case.me)
    if before is not None and before.number is not None and output.number is None:
        return _repeated(chain, before, gold, followed=followed, repeated=repeated)
    if gold is None:
        return _unchecked_output(case, chain, output, wrong)
    if is_right(output, gold):
        return Finding(1.0, f"the code printed {short(output)}, which is right")
    if output.number is None and not case.evidence.last_turn:
        return Finding(unfinished, f"the code printed no value so far: {short(output)}", case.me)
    culprit = origin_of(dataclasses.replace(chain, output=output, result=None, ran=case.me), gold)
    if culprit == "":
        said = f"the code printed {short(output)}, which is wrong"
        return Finding(blocked, f"{said}; nobody can tell whether the plan asks for it", culprit)
    if culprit != case.me:
        return Finding(followed, f"the code carries out a wrong plan: it printed {short(output)}", culprit)
    return Finding(wrong, f"the code printed {short(output)}, which is wrong", case.me)


def _repeated(
    chain: Chain, output: Statement, gold: str | None, *, followed: float, repeated: float
) -> Finding:
    """A run that prints words alone leaves what the agent printed before as it is."""
    said = f"the code printed no value, after {short(output)}"
    if gold is None or is_right(output, gold):
        return Finding(followed, said)
    source = origin_of(chain, gold)
    return Finding(repeated if source == output.agent else followed, f"{said}, which is wrong", source)


def _unchecked_output(case: Case, chain: Chain, output: Statement, wrong: float) -> Finding:
    if _unlike(chain.plan, output):
        return Finding(wrong, f"the code printed {short(output)}, which is not the plan's value", case.me)
    return Finding(1.0, f"the code printed {short(output)}")


def _unlike(plan: Statement | None, output: Statement) -> bool:
    return plan is not None and plan.number is not None and not same(plan, output)


def _report(
    case: Case,
    chain: Chain,
    *,
    wrong: float,
    nothing: float,
    blocked: float,
    followed: float,
    repeated: float,
) -> Finding:
    """A turn without code: 0 before the first run; after it, the report of the output counts."""
    if not case.programs and all(record.tool is None for record in case.earlier):
        return Finding(0.0, "no code was run, although this work needs it", case.me)
    result, gold = own(report_in(case.me, case.answer), chain.plan), gold_of(case)
    valued = result is not None and result.number is not None
    stopper = stopper_of(case)
    chain = chain_of(case.seen, gold, result)
    output = chain.output if stopper is None else None
    if stopper is not None and not valued:
        return Finding(blocked, "there is no value to report, since the plan cannot run", stopper)
    if result is None and output is not None:
        words = worded_in(case.me, case.answer, output)
        if gold is not None and words is not None and words.number is not None and is_right(words, gold):
            return Finding(followed, f"the report tells the right value, {short(words)}, in words")
        if words is not None and words.number is not None and words.number == output.number:
            result = words
    if result is None and output is not None:
        result = _reported_before(case, output)
    if result is None:
        return Finding(0.0, "the turn reports no result", case.me)
    right = gold is not None and is_right(result, gold)
    if output is None:
        if right:
            return Finding(0.5, "the reported result is right, but no run printed it")
        return Finding(
            wrong if valued else nothing,
            f"no run printed a result, but {short(result)} was reported",
            case.me,
        )
    if not same(result, output):
        if right:
            return Finding(1.0, "the report corrects a wrong output")
        return Finding(wrong, f"the report {short(result)} is not the output, {short(output)}", case.me)
    said = f"the report {short(result)} is what the code printed"
    if gold is None:
        unlike = _unlike(chain.plan, output)
        return (
            Finding(repeated, f"{said}, which is not the plan's value", case.me)
            if unlike
            else Finding(1.0, said)
        )
    if right:
        return Finding(1.0, said)
    source = origin_of(chain, gold)
    return Finding(repeated if source == case.me else followed, f"{said}, which is wrong", source)


def _reported_before(case: Case, output: Statement) -> Statement | None:
    """The report beside the program of this agent's last run, if that printed what it says."""
    run = next((record for record in reversed(case.seen) if record.tool is not None), None)
    if run is None or run.agent != case.me:
        return None
    said = report_in(case.me, run.answer)
    return said if said is not None and said.number is not None and same(said, output) else None


def math_answer(
    case: Case,
    *,
    wrong: float = 0.1,
    followed: float = 0.8,
    careless: float = 0.6,
    coasted: float = 0.4,
    blocked: float = 0.6,
) -> Finding:
    """Check the boxed answer against the truth and against the values that this agent received.

    ``blocked``: upstream agents passed on no value. The other options are the ``Points`` of ``carried_on``.
    """
    gold, box = gold_of(case), box_in(case.me, case.answer)
    if box is None:
        return Finding(0.0, r"there is no \boxed{} answer", case.me)
    if gold is not None and box_is_right(case, gold):
        return Finding(1.0, "the boxed answer is right")
    given, stopper = handed_on(case, box), stopper_of(case)
    if not given.computed or (stopper is not None and all(each.number is None for each in given.computed)):
        blame = stopper or given.chain.ran or _computer(case)
        return Finding(blocked, "no value was handed on to answer with", blame)
    return carried_on(case, box, given, gold, Points(wrong, followed, careless, coasted))


def _computer(case: Case) -> str | None:
    """The last agent that acted before this segment and has a tool, else the last one."""
    others = [record.agent for record in case.seen if record.agent != case.me]
    tooled = [name for name in others if case.team[name].tools] or others
    return tooled[-1] if tooled else None


def box_is_right(case: Case, gold: str) -> bool:
    """Whether the box is right. Of the action that it takes, the grader has already decided that."""
    outcome = case.evidence.outcome
    if outcome is not None and case.answerer in (None, case.me):
        return outcome.success
    return grade_answer(case.answer, gold).correct


def _how(tool: ToolResult) -> str:
    return exception_of(tool)[1] or tool.status
