"""Checks of agents that answer a mathematics problem, or judge an answer: debaters, judges, reviewers.

An agent that answers by itself is responsible for its answer. One that first answers after it has seen only
wrong answers is not, if it repeats one of them. Nobody is judged on what it could not see.
"""

from __future__ import annotations

from mappa_env.coach.rubric.case import Case, Finding
from mappa_env.coach.rubric.checks_math import box_is_right, math_code
from mappa_env.coach.rubric.claims_math import (
    Statement,
    answers_of,
    box_in,
    is_right,
    output_of,
    same,
    short,
    stated_in,
)
from mappa_env.coach.rubric.handed_on import Points, carried_on, gold_of, handed_on
from mappa_env.order import said
from mappa_env.order.steps import DONE, KEY

DECISION, ACCEPT = "decision", "accept"
"""What a reviewer writes: ``decision: accept``; any other word sends the work back."""


def math_solution(
    case: Case,
    *,
    wrong: float = 0.1,
    followed: float = 0.8,
    careless: float = 0.6,
    coasted: float = 0.4,
    unfinished: float = 0.2,
    failed: float = 0.1,
) -> Finding | None:
    """Check the answer that this agent states, in a box or otherwise; code, as ``math_code`` does.

    None: it hands over to another agent. ``followed``: it has not answered before, all answers that it saw
    are one and the same wrong value, and it repeats that. ``careless``: it repeats one of several, all wrong.
    ``coasted``: it repeats what others computed, although their plan or output is right. Where the grader
    takes its answer, only a box counts. Without the truth: it states an answer, and not another one than its
    program printed.
    """
    if case.offered and case.evidence.outcome is None and said(case.words, KEY) != DONE:
        return None
    box = box_in(case.me, case.answer)
    answer = box or stated_in(case.me, case.answer)
    if case.evidence.tool is not None and not (case.evidence.last_turn and answer is not None):
        found = math_code(case, wrong=wrong, followed=followed, unfinished=unfinished, failed=failed)
        return _computed(case, found, Points(wrong, followed, careless, coasted))
    if answer is None:
        return Finding(0.0, "it states no answer", case.me)
    if box is None and _is_graded(case):
        return Finding(0.0, r"there is no \boxed{} answer", case.me)
    gold, mine = gold_of(case), answers_of(case.own, gold_of(case)).get(case.me)
    if gold is None:
        if mine is not None and case.programs and not same(mine, answer):
            return Finding(wrong, f"the answer {short(answer)} is not the output, {short(mine)}", case.me)
        return Finding(1.0, f"it states the answer {short(answer)}")
    if box_is_right(case, gold) if box is not None else is_right(answer, gold):
        return Finding(1.0, f"the answer {short(answer)} is right")
    if mine is not None and not same(mine, answer):
        return Finding(wrong, f"the answer {short(answer)} is wrong", case.me)
    return _chosen(case, answer, gold, Points(wrong, followed, careless, coasted))


def _computed(case: Case, found: Finding, points: Points) -> Finding:
    """``found``; for code with a wrong output, whether its agent chose that among the answers it saw."""
    gold, tool = gold_of(case), case.evidence.tool
    output = None if tool is None else output_of(case.me, tool, gold=gold)
    if gold is None or output is None or output.number is None or is_right(output, gold):
        return found
    return _chosen(case, output, gold, points)


def _chosen(case: Case, answer: Statement, gold: str, points: Points) -> Finding:
    """Judge a wrong ``answer`` by the answers of others that this agent saw."""
    given, seen = handed_on(case, answer), answers_of(case.seen, gold)
    seen.pop(case.me, None)
    worker = given.chain.ran
    if worker not in (None, case.me):  # what was planned and computed is one answer, and may disagree
        seen.pop(str(worker), None)
    repeated = [each for each in seen.values() if same(each, answer)]
    handed = any(same(answer, each) for each in given.known) and worker not in (None, case.me)
    before = answers_of(case.earlier, gold).get(case.me)
    if before is not None or not (repeated or handed) or any(is_right(each, gold) for each in seen.values()):
        return Finding(points.wrong, f"the answer {short(answer)} is wrong", case.me)
    if handed:
        return carried_on(case, answer, given, gold, points)
    source = _source(case, answer)
    if len(repeated) < len(seen):
        said = f"the answer {short(answer)} takes one side of several, all wrong"
        return Finding(points.careless, said, source)
    return Finding(points.followed, f"the answer {short(answer)} repeats what all others said", source)


def math_review(case: Case, *, wrong: float = 0.1) -> Finding | None:
    """Check a reviewer's ``decision: accept``, or any other, against the truth of the answer under review.

    That is the newest answer of the agent whose answer is graded, else of any other agent that it saw. None:
    the segment goes on. ``wrong``: it accepts a wrong answer, or none, or sends a right one back. 0: it
    decides nothing. Without the truth: it decides.
    """
    if not case.evidence.last_turn:
        return None
    decision = said(case.words, DECISION)
    if not decision:
        return Finding(0.0, "there is no `decision:` line", case.me)
    if gold_of(case) is None:
        return Finding(1.0, f"it decides: {decision!r:.40}")
    if (decision == ACCEPT) == reviewed_is_right(case):
        return Finding(1.0, f"the decision {decision!r:.40} is right")
    return Finding(wrong, f"the decision {decision!r:.40} is wrong", case.me)


def reviewed_is_right(case: Case) -> bool:
    """Whether the answer that this agent reviews is right. False without the truth."""
    graded, gold = case.evidence.provisional_outcome, gold_of(case)
    if graded is not None and case.answerer not in (None, case.me):
        return graded.success
    answer = newest_answer(case)
    return gold is not None and answer is not None and is_right(answer, gold)


def newest_answer(case: Case) -> Statement | None:
    """The newest answer that this agent saw: of the agent whose answer is graded, else of any other."""
    for record in reversed(case.seen):
        if record.agent == case.me or case.answerer not in (None, case.me, record.agent):
            continue
        found = answers_of([record])
        if found:
            return found[record.agent]
    return None


def _is_graded(case: Case) -> bool:
    """Whether this action's answer is the one that the grader takes, as far as can be told."""
    return case.answerer == case.me or (case.answerer is None and case.evidence.outcome is not None)


def _source(case: Case, answer: Statement) -> str | None:
    """Who of the others brought up a wrong answer that this agent repeats."""
    for record in case.seen:
        if record.agent == case.me:
            continue
        found = answers_of([record])
        if found and same(found[record.agent], answer):
            return record.agent
    return None
