"""The check of a manager that keeps others busy: a call that brings the work no further."""

from __future__ import annotations

from mappa_env.coach.rubric.case import Case, Finding
from mappa_env.coach.rubric.claims_math import is_right, planned_in
from mappa_env.coach.rubric.handed_on import gold_of
from mappa_env.order import said
from mappa_env.order.steps import KEY
from mappa_env.types import ActionRecord
from mappa_env.types.revised import revised


def progress(case: Case, *, again: float = 0.1, last: float = 0.1) -> Finding | None:
    """Check whether the agent that a manager calls can bring the work further. None: it calls nobody.

    ``again``: that agent has worked just before and done its part: written its files, or stated a plan or an
    answer (with the truth in the evidence, a right one). ``last``: the manager's answer is graded, and after
    this call it has no turn left to give it.
    """
    named = said(case.words, KEY)
    if not case.evidence.last_turn or named not in case.offered:
        return None
    if case.before and case.before[-1].agent == named and _did_its_part(case, named):
        return Finding(again, f"it calls {named} again, which has done its part", case.me)
    if case.answerer == case.me and not _returns(case, named):
        return Finding(last, f"it calls {named} in its last turn, and gives no answer", case.me)
    return Finding(1.0, f"{named} can bring the work further")


def _did_its_part(case: Case, named: str) -> bool:
    spec, present = case.team[named], case.evidence.present
    if spec.requires:
        return all(path in present and present[path].agent == named for path in spec.requires)
    if spec.tools:
        return False  # whether its result is right, ``handover`` checks
    said, gold = planned_in(named, case.before[-1].answer), gold_of(case)
    return said is not None and said.number is not None and (gold is None or is_right(said, gold))


def _returns(case: Case, named: str) -> bool:
    """Whether this agent would have another turn after a segment of ``named``."""
    history = case.evidence.history
    if not history:
        return True
    mine = _finished(history[-1], case.me, case.words)
    turn = case.order.next((*case.before, mine, _finished(history[-1], named, "")))
    return turn is not None and turn.agent.name == case.me


def _finished(record: ActionRecord, agent: str, answer: str) -> ActionRecord:
    """An action like ``record`` that is a whole segment of ``agent``."""
    return revised(record, agent=agent, answer=answer, last_turn=True)
