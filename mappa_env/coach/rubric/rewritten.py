"""Files of others that an agent writes again in place of sound ones, and that are worth as much as these."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mappa_env.coach.rubric.artifacts import MODEL, facts_after, facts_of, section
from mappa_env.coach.rubric.case import Case
from mappa_env.coach.rubric.model_skill import falls_short, skill_of_model
from mappa_env.coach.rubric.poor_tables import TABLES, learned_skill


def kept_as_good(case: Case, paths: set[str]) -> set[str]:
    """Those of ``paths`` that are worth as much as before this segment, up to what agents may fall short.

    Tables: the host's own models learn as much from them. A model: it predicts as well.
    """
    now, was = facts_of(case), facts_after(case.before)
    if now is None or was is None:
        return set()
    tables, model = paths & TABLES, paths & {MODEL}
    if tables and not _as_good(learned_skill(case, now), learned_skill(case, was)):
        tables = set()
    if model and not (_speaks(now, was) or _as_good(skill_of_model(case, now), skill_of_model(case, was))):
        model = set()
    return tables | model


def allowed_before(case: Case) -> float | None:
    """What the tables allowed that this agent has written again, although others have to; None: none."""
    now, was = facts_of(case), facts_after(case.before)
    again = {path for path in TABLES - set(case.evidence.agent.requires) if case.mine(path)}
    if now is None or was is None or not again:
        return None
    return learned_skill(case, was)


def _as_good(now: float | None, was: float | None) -> bool:
    return now is not None and was is not None and not falls_short(now, was)


def _speaks(now: Mapping[str, Any], was: Mapping[str, Any]) -> bool:
    """Whether a model tells rows apart and the one before did not, which needs no truth."""
    one, other = section(was, "model"), section(now, "model")
    return bool(one.get("constant")) and "predictions" in other and not other.get("constant")
