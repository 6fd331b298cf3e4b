"""The check of the tables that an agent hands on, once it has written all of its files."""

from __future__ import annotations

from mappa_env.coach.rubric.artifacts import defects, facts_of, section, unknown_work
from mappa_env.coach.rubric.case import Case, Finding
from mappa_env.coach.rubric.checks_work import unwritten
from mappa_env.coach.rubric.poor_tables import poor_tables, worthless_tables
from mappa_env.coach.rubric.skill_scores import LEAST, unusable


def tables(
    case: Case, *, id_kept: float = 0.8, poor: float = 0.4, worthless: float = LEAST
) -> Finding | None:
    """Check whether the tables that this agent wrote are usable. None: not all are written, or can be read.

    ``poor``: fewer than half of the task's columns or rows are kept. ``worthless``: the tables have the right
    form, but no model learns from them what test.csv asks for; only the hidden truth tells that.
    """
    if unwritten(case):
        return None
    facts = facts_of(case)
    if facts is None:
        return Finding(1.0, "the tables are written; their contents were not checked")
    mine = [defect for defect in defects(case) if defect.writer == case.me and not defect.unclear]
    if mine:
        return unusable(case, "; ".join(f"{d.path} is unusable: {d.reason}" for d in mine[:3]))
    if unknown_work(case) is not None:
        return None
    if (bare := worthless_tables(case, facts)) is not None:
        return Finding(worthless, f"{bare.path}: {bare.reason}", bare.writer)
    if thin := poor_tables(case):
        return Finding(poor, f"{thin[0].path}: {thin[0].reason}", thin[0].writer)
    if section(facts, "checks").get("id_kept"):
        return Finding(id_kept, "the identifier is among the features")
    return Finding(1.0, "the tables are sound")
