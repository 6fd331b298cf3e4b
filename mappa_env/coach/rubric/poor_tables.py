"""Tables from which little can be learned, as the host's own models on them tell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mappa_env.coach.rubric.artifacts import Defect, facts_of, section
from mappa_env.coach.rubric.case import Case
from mappa_env.coach.rubric.model_skill import skill_of_model

FEATURES = "X_train.pkl"
WORTHLESS = 0.2
"""Tables on which neither the model nor the host's forest reaches this skill are their writer's doing."""
APART = 0.3
"""From here on, a forest tells two classes apart, or ranks rows, whatever the metric makes of that."""
TRACE = 0.05
"""What the host's models may show by chance where they saw a sample of the rows: more would grow with all."""
LITTLE = 0.5
"""Tables with few columns or rows are poor if the host's forest has less skill on them than this."""
TABLES = frozenset((FEATURES, "y_train.pkl", "X_test.pkl"))
"""What models learn from and are asked about."""
_SMOOTH = "allowed_smooth"
_HOSTS = ("allowed", _SMOOTH)
"""The facts about what the host's own models predict."""
_NOTHING = "no model learns from it what test.csv asks for"


def poor_tables(case: Case, skill: float = 0.0) -> list[Defect]:
    """Sound tables that are a poor basis: worthless, or with fewer than half of the task's columns or rows.

    A selection on which the host's own model has skill is none. ``skill``: that of the team's model.
    """
    facts = facts_of(case) or {}
    if (bare := worthless_tables(case, facts, skill)) is not None:
        return [bare]
    table, task, change = section(facts, "X_train"), case.evidence.task, case.evidence.present.get(FEATURES)
    cols, rows = int(table.get("cols") or 0), int(table.get("rows") or 0)
    names = {name for kind in ("num", "cat") for name in task.meta.get("columns", {}).get(kind, ())}
    offered = len(names) if names.intersection(table.get("columns") or names) else 0  # else a projection
    given = int(section(facts, "checks").get("train_rows") or 0)
    if change is None or not change.agent or (cols * 2 >= offered and rows * 2 >= given):
        return []
    if max(learned_skill(case, facts) or 0.0, _ranked(case, facts) or 0.0) >= LITTLE:
        return []
    if cols and 2 * cols < offered:
        return [Defect(FEATURES, change.agent, f"it keeps only {cols} of {offered} columns")]
    if rows and 2 * rows < given:
        return [Defect(FEATURES, change.agent, f"it keeps only {rows} of {given} rows")]
    return []


def worthless_tables(case: Case, facts: Mapping[str, Any], skill: float = 0.0) -> Defect | None:
    """The tables, if neither the host's models nor the team's, with ``skill``, learn anything from them.

    None also where that cannot be leaks: the host saw the first rows only, or a sample in which there is a
    trace of something, probabilities may merely be too sure of themselves, or the reference learns little.
    """
    change = case.evidence.present.get(FEATURES)
    if change is None or not change.agent or skill >= WORTHLESS or not _teaches_nothing(case, facts):
        return None
    return Defect(FEATURES, _who_changed(case) or change.agent, _NOTHING)


def allowed_skill(case: Case, facts: Mapping[str, Any], reference: float | None = None) -> float | None:
    """The skill of the host's own forest on the tables; None if it has none, or it cannot be graded."""
    if case.evidence.truth is None:
        return None
    return _skill_of(case, facts, "allowed", reference)


def learned_skill(case: Case, facts: Mapping[str, Any], reference: float | None = None) -> float | None:
    """The same of the better of both models of the host: what can be learned from the tables at all."""
    if case.evidence.truth is None:
        return None
    graded = [allowed_skill(case, facts, reference)]
    leaks = section(facts, "checks").get("target_lost")  # in rows of X_train, by what X_test lacks
    if section(facts, _SMOOTH).get("learns", 0.0) > 0 and not leaks:  # not by chance alone
        graded.append(_skill_of(case, facts, _SMOOTH, reference))
    return max((skill for skill in graded if skill is not None), default=None)


def _skill_of(case: Case, facts: Mapping[str, Any], host: str, reference: float | None) -> float | None:
    """The skill of what a model of the host predicts, in the labels or codes of y_train."""
    seen = {"model": section(facts, host), "checks": section(facts, "checks")}
    return skill_of_model(case, seen, reference)


def _teaches_nothing(case: Case, facts: Mapping[str, Any]) -> bool:
    """Whether neither model of the host learns anything from the tables, nor tells two classes apart."""
    from mappa_env.grading.metrics import metric_named
    from mappa_env.grading.metrics import skill as skill_of
    from mappa_env.grading.submission import separation

    task = case.evidence.task
    if any(section(facts, name).get("partial") for name in _HOSTS):
        return False
    sampled = section(facts, "allowed").get("sampled") is True
    if sampled and _leaves_a_trace(case, facts):
        return False
    metric, ranked = metric_named(task.metric), _ranked(case, facts)
    if ranked is not None and ranked >= APART:
        return False
    # Against a perfect score the skill is least, and the reference need not be fitted.
    for reference in (metric.ideal, None) if ranked is None else ():
        learned = learned_skill(case, facts, reference)
        if learned is None or learned >= WORTHLESS:
            return False
    best, constant = float(task.truth["reference"]), float(task.truth["constant"])
    signed = section(facts, "checks").get("labels_kept") is True
    apart = separation(task, {"model": section(facts, "allowed")}, signed=signed)
    # Ranks show much less than this where numbers are asked for.
    least = 2 * TRACE if sampled and metric.takes in ("number", "nonnegative") else WORTHLESS
    return skill_of(best, constant, metric.ideal, task.metric) >= least and not (
        metric.takes == "probability" if apart is None else apart >= APART
    )


def _leaves_a_trace(case: Case, facts: Mapping[str, Any]) -> bool:
    """Whether anything at all can be learned from a sample of the rows."""
    from mappa_env.grading.submission import ranking, separation

    task, found = case.evidence.task, [section(facts, _SMOOTH).get("learns")]
    for part in ({"model": section(facts, name)} for name in _HOSTS):
        found += [separation(task, part), ranking(task, part), skill_of_model(case, part)]
    return any(each is not None and each > TRACE for each in found)


def _ranked(case: Case, facts: Mapping[str, Any]) -> float | None:
    """How well the better of the host's models ranks the rows; None unless ranks alone tell the scale."""
    from mappa_env.grading.submission import ranking

    if case.evidence.truth is None:
        return None
    hosts = [part for name in _HOSTS if (part := section(facts, name)).get("by_rank")]
    found = [ranking(case.evidence.task, {"model": part}) for part in hosts]
    return max((rank for rank in found if rank is not None), default=None)


def ruined(case: Case) -> bool:
    """Whether nothing can be learned from the tables, and this agent wrote one last of those that matter."""
    bare = worthless_tables(case, facts_of(case) or {})
    return bare is not None and bare.writer == case.me


def _who_changed(case: Case) -> str | None:
    """Who wrote a table first after the host could learn from them; None: it never could."""
    history, at = case.evidence.history, case.evidence
    good = [each.step for each in history if (learned_skill(case, each.probe or {}) or 0.0) >= WORTHLESS]
    runs = [(each.agent, each.tool) for each in history if good and each.step > good[-1]]
    runs += [(case.me, at.tool)] if good else []
    return next((agent for agent, tool in runs if tool and TABLES.intersection(tool.written)), None)
