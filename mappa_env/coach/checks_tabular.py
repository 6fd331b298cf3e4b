"""Checks for teams that predict tables: are the tables sound, how good are the model and the submission.

Quality is skill: 0 for the best constant, 1 for the reference model, by one formula for every metric. One
ladder serves all marks, so that classification and regression are held to one standard::

    0      unusable (does not load, leaks the target, wrong rows, missing values, refused submission)
    0.15   the same value for every row
    0.22   not better than the best constant
    0.25   bad through an upstream fault, or impossible to tell
    0.3    better: 0.3 + 0.7 * skill, at most 1
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from mappa_env.coach.artifacts import MODEL, Defect, defects, facts_of, is_foreign, section
from mappa_env.coach.case import Case, Finding
from mappa_env.types import Outcome

CONSTANT, USELESS, NEUTRAL, FLOOR = 0.15, 0.22, 0.25, 0.3
_RANGES = {"probability": (0.02, 0.98), "nonnegative": (0.0, math.inf)}
UNTRIED = 0.8
"""A model that can predict, where there is nothing sound to try it on."""


def tables(case: Case, *, id_kept: float = 0.8, narrow: float = 0.6, few_rows: float = 0.6) -> Finding | None:
    """Whether the tables this agent wrote can be used. None: it has written none, or nobody looked inside.

    ``narrow``: fewer than half of the task's columns are left; ``few_rows``: fewer than half of the rows.
    """
    facts = facts_of(case)
    if facts is None or not any(case.mine(path) for path in case.evidence.agent.requires):
        return None
    mine = [defect for defect in defects(case) if defect.writer == case.me]
    if mine:
        return Finding(0.0, "; ".join(f"{d.path} is unusable: {d.reason}" for d in mine[:3]), case.me)
    table, checks = section(facts, "X_train"), section(facts, "checks")
    cols, rows = int(table.get("cols") or 0), int(table.get("rows") or 0)
    columns = case.evidence.task.meta.get("columns", {})
    offered = sum(len(columns.get(kind, ())) for kind in ("num", "cat"))
    if cols and 2 * cols < offered:
        return Finding(narrow, f"X_train.pkl keeps only {cols} of {offered} columns", case.me)
    given = int(checks.get("train_rows") or 0)
    if rows and 2 * rows < given:
        return Finding(few_rows, f"X_train.pkl keeps only {rows} of {given} rows", case.me)
    if checks.get("id_kept"):
        return Finding(id_kept, "the identifier is among the features")
    return Finding(1.0, "the tables are sound")


def model(case: Case) -> Finding | None:
    """How well the model this agent wrote predicts. None: it has written none, or nobody looked inside."""
    facts = facts_of(case)
    if facts is None or not case.mine(MODEL):
        return None
    found, seen = defects(case), section(facts, "model")
    upstream = next((defect for defect in found if defect.writer not in ("", case.me)), None)
    own = [defect for defect in found if defect.writer == case.me]
    if seen.get("loads") and not seen.get("has_predict"):
        upstream = None  # no table is to blame for a model that is none
    if own:
        return _bad(Finding(0.0, f"{own[0].path} is unusable: {own[0].reason}", case.me), upstream)
    if is_foreign(seen):
        return Finding(NEUTRAL, f"{MODEL} could not be looked into ({seen.get('error')})")
    if "predictions" not in seen:
        return Finding(UNTRIED, f"{MODEL} can predict; there is no X_test.pkl to try it on")
    if seen.get("constant"):
        return _bad(Finding(CONSTANT, f"{MODEL} predicts the same value for every row", case.me), upstream)
    if case.evidence.truth is None:
        return Finding(1.0, f"{MODEL} predicts every row of X_test.pkl")
    graded = _grade_model(case, facts)
    if graded is None and upstream is not None:
        return Finding(UNTRIED, f"{MODEL} can predict; {upstream.path} cannot serve to try it on")
    if graded is None:  # it may need a step that its maker described, such as decoding labels
        return Finding(NEUTRAL, f"the predictions of {MODEL} cannot be graded as they stand")
    return _bad(_by_skill(case, graded, f"{MODEL} predicts"), upstream)


def submission(case: Case) -> Finding | None:
    """How good the submission is, as graded by the host. None: this agent has written none."""
    path = case.evidence.agent.requires[0]
    if not case.mine(path):
        return None
    graded = case.evidence.standing
    if case.evidence.truth is None or graded is None:
        return Finding(1.0, f"{path} is written; its content was not judged")
    tried = "\n".join(record.code or "" for record in case.own) + (case.evidence.code or "")
    used = [defect for defect in defects(case) if defect.writer != case.me and defect.path in tried]
    finding = _graded(case, graded, path)
    return _bad(finding, used[0] if used else _useless_model(case, graded, tried))


def _graded(case: Case, graded: Outcome, path: str) -> Finding:
    if graded.status != "ok":
        return Finding(0.0, f"{path} is refused: {graded.reason}", case.me)
    if graded.metrics.get("constant"):
        return Finding(CONSTANT, f"{path} holds the same value in every row", case.me)
    return _by_skill(case, float(graded.metrics.get("skill", 0.0)), f"{path} is valid and predicts")


def _by_skill(case: Case, skill: float, what: str) -> Finding:
    if skill <= 0:
        return Finding(USELESS, f"{what} no better than the best constant", case.me)
    return Finding(FLOOR + (1 - FLOOR) * min(skill, 1.0), f"{what} with skill {skill:.1f}")


def _useless_model(case: Case, graded: Outcome, tried: str) -> Defect | None:
    """The model as the reason why a valid submission is useless; None where it is not."""
    change, facts = case.evidence.present.get(MODEL), facts_of(case)
    if graded.status != "ok" or change is None or change.agent == case.me or MODEL not in tried:
        return None
    if facts is None or "predictions" not in section(facts, "model"):
        return None
    if section(facts, "model").get("constant"):
        return Defect(MODEL, change.agent, "it predicts the same value for every row")
    skill = _grade_model(case, facts)
    if skill is not None and skill <= 0:
        return Defect(MODEL, change.agent, "it predicts no better than the best constant")
    return None


def _grade_model(case: Case, facts: Mapping[str, Any]) -> float | None:
    """Skill of what the probe saw the model predict; None where it cannot be graded.

    Numbers are first moved into the metric's range, as whoever submits them can do: a forest that is wrongly
    sure of one row has a boundless log loss only for want of a clip.
    """
    from mappa_env.grading.metrics import metric_named
    from mappa_env.grading.submission import grade_model

    low, high = _RANGES.get(metric_named(case.evidence.task.metric).takes, (-math.inf, math.inf))
    seen = dict(section(facts, "model"))
    for name in ("probabilities", "predictions"):
        values = seen.get(name)
        if isinstance(values, list) and all(isinstance(value, (int, float)) for value in values):
            seen[name] = [min(max(value, low), high) for value in values] if low > -math.inf else values
    graded = grade_model(case.evidence.task, {**facts, "model": seen})
    return None if graded is None else graded[1]


def _bad(finding: Finding, cause: Defect | None) -> Finding:
    """``finding``, excused where it is bad and an upstream defect explains it."""
    if finding.blame is None or cause is None:
        return finding
    return Finding(NEUTRAL, f"{cause.path} by {cause.writer} is at fault: {cause.reason}", cause.writer)
