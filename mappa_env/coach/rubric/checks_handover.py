"""The check of a manager: it hands over to whom it can, and ends when the work is there."""

from __future__ import annotations

from mappa_env.coach.rubric.case import Case, Finding
from mappa_env.coach.rubric.checks_answers import newest_answer, reviewed_is_right
from mappa_env.order import said
from mappa_env.order.steps import DONE, KEY


def handover(
    case: Case,
    *,
    late: float = 0.5,
    blind: float = 0.2,
    early: float = 0.1,
    followed: float = 0.8,
) -> Finding | None:
    """Check the line ``next: <agent>`` of a manager. None: this agent chooses nobody, or its segment goes on.

    0: it names nobody who can act. ``blind``: the agent that it calls lacks an input, which another one that
    it could have called has to make. ``late``: it calls somebody although a right answer, or a submission as
    good as the reference, is there. ``early``: it ends the work before anybody whom it can call has acted, or
    before there is an answer or all files that are for no other agent. ``followed``: it ends the work with
    what another agent made, and that is wrong. Without the truth, what is there counts as right.
    """
    if not case.offered or not case.evidence.last_turn:
        return None
    named = said(case.words, KEY)
    if named == DONE:
        return _ends(case, early, followed)
    if named not in case.offered:
        return Finding(0.0, "it names nobody who can act", case.me)
    present = case.evidence.present or dict.fromkeys(case.evidence.task.files)
    makers = {path for name in case.offered if name != named for path in case.team[name].requires}
    for path in case.team[named].reads:
        if path not in present and path in makers:
            return Finding(blind, f"it calls {named}, and {path} is missing", case.me)
    if _is_done(case):
        return Finding(late, f"it calls {named}, although the work is done", case.me)
    return Finding(1.0, f"it calls {named}")


def _ends(case: Case, early: float, followed: float) -> Finding:
    if not {record.agent for record in case.seen}.intersection(case.offered):
        return Finding(early, "it ends the work before anybody has done any", case.me)
    products, present = case.products, case.evidence.present
    missing = [path for path in products if path not in present or not present[path].agent]
    if missing:
        return Finding(early, f"it ends the work, and {', '.join(missing)} is missing", case.me)
    answer = newest_answer(case)
    if not products and answer is None:
        return Finding(early, "it ends the work, and nobody has stated an answer", case.me)
    graded = case.evidence.outcome or case.evidence.provisional_outcome
    if case.evidence.truth is None or graded is None or graded.success:
        return Finding(1.0, "it ends the work, which is there")
    if products:
        writer = present[products[0]].agent
    elif answer is not None and not reviewed_is_right(case):
        writer = answer.agent
    else:
        return Finding(1.0, "it ends the work, and has seen a right answer")
    return Finding(followed, "it ends the work with what another agent made, which is wrong", writer)


def _is_done(case: Case) -> bool:
    """Whether a right answer, or a submission as good as the reference, is there."""
    graded = case.evidence.provisional_outcome
    if case.evidence.truth is None or graded is None:
        return False
    if case.products:
        return graded.success and graded.score >= 1
    return reviewed_is_right(case)
