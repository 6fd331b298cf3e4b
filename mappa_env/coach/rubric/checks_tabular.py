"""Checks of what teams that solve tabular tasks hand on: the tables, the model and the submission.

They apply once an agent has written all of its files. Quality is skill: 0 for the best constant, 1 for the
reference model, by one formula for every metric, so that classification and regression are judged by the same
standard. An agent pays in full for the skill that it lost itself, and less than half of that for what its
inputs lacked::

    score = 1 - 0.85 * own loss - 0.4 * what the inputs lacked, at least 0.15
    0.1    unusable by its own fault (does not load, leaks the target, wrong rows, refused, one constant)
    0.6    as good as unsound inputs allow: nothing is gained, and no skill of its own is lost
    0.8    and more: skill of 0.2 and more in spite of unsound inputs, that is, a workaround
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from mappa_env.coach.rubric.artifacts import (
    MODEL,
    UNSTABLE,
    Defect,
    defects,
    facts_of,
    other_format,
    section,
    unknown_work,
)
from mappa_env.coach.rubric.case import Case, Finding
from mappa_env.coach.rubric.checks_work import BLOCKED, unwritten, why
from mappa_env.coach.rubric.inputs import unsound_inputs

FEATURES, TEST, SUBMISSION = "X_train.pkl", "X_test.pkl", "submission.csv"
UNUSABLE, LEAST = 0.1, 0.15
OWN_LOSS, INPUT_LOSS = 1 - LEAST, 1 - BLOCKED
UNKNOWN = 0.5
"""The score of a model whose predictions cannot be graded."""
UNTRIED = 0.8
"""The score of a model that can predict, without a sound table to test it on."""
WORKAROUND = 0.2
"""What a skill of as much, reached in spite of unsound inputs, adds to the score of a blocked agent."""
SHORT = 0.8
"""An agent that keeps less than this fraction of the possible skill may be to blame for the difference."""
WORTHLESS = 0.2
"""Tables on which neither the model nor the host's forest reaches this skill are their writer's doing."""
APART = 0.3
"""From here on, a forest tells two classes apart, whatever the metric makes of its predictions."""
TWO_FACED = 0.5
"""A model whose two answers differ more in skill depends on who asks it: numbers that it draws do less."""
LITTLE = 0.5
"""Tables with few columns or rows are poor if the host's forest has less skill on them than this."""
_RANGES = {"probability": (0.02, 0.98), "nonnegative": (0.0, math.inf)}


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
        return _bad(case, "; ".join(f"{d.path} is unusable: {d.reason}" for d in mine[:3]))
    if unknown_work(case) is not None:
        return None
    if (bare := _worthless(case, facts)) is not None:
        return Finding(worthless, f"{bare.path}: {bare.reason}", bare.writer)
    if thin := _poor(case):
        return Finding(poor, f"{thin[0].path}: {thin[0].reason}", thin[0].writer)
    if section(facts, "checks").get("id_kept"):
        return Finding(id_kept, "the identifier is among the features")
    return Finding(1.0, "the tables are sound")


def model(case: Case) -> Finding | None:
    """Check how well the model that this agent wrote predicts. None: it has written none that can be read."""
    if unwritten(case) or unknown_work(case) is not None:
        return None
    facts = facts_of(case)
    if facts is None:
        return Finding(1.0, f"{MODEL} is written; its content was not checked")
    found, seen = defects(case), section(facts, "model")
    own = [defect for defect in found if defect.writer == case.me and not defect.unclear]
    others = [defect for defect in found if defect.writer not in ("", case.me)]
    closed = seen.get("plain") is False and not other_format(seen)
    hopeless = closed or not seen.get("has_predict") or "probe_failed" in facts
    if own and hopeless and not any(cause.fills for cause in unsound_inputs(case)):
        return Finding(UNUSABLE, f"{own[0].path} is unusable: {own[0].reason}", case.me)
    if own:
        if seen.get("tried_on"):  # X_test had no part in it
            others = [defect for defect in others if defect.path != TEST]
        return _bad(case, f"{own[0].path} is unusable: {own[0].reason}", others)
    if untried := next((defect for defect in others if defect.path == MODEL), None):
        return Finding(UNTRIED, f"{MODEL} could not be tried: {why(untried)}", untried.writer)
    if "predictions" not in seen:
        test = next((defect for defect in others if defect.path == TEST), None)
        said = why(test) if test else "there is no X_test.pkl to try it on"
        return Finding(UNTRIED, f"{MODEL} can predict; {said}", test.writer if test else None)
    causes = [*unsound_inputs(case), *others]
    if seen.get("constant"):
        return _bad(case, f"{MODEL} predicts the same value for every row", [*causes, *_given_poor(case)])
    if case.evidence.truth is None:
        return Finding(1.0, f"{MODEL} predicts every row of X_test.pkl")
    if _two_faced(case, facts):
        return _bad(case, f"{MODEL} is unusable: {UNSTABLE}", causes)
    skill = _grade_model(case, facts)
    if skill is None and others:
        said = f"{MODEL} can predict; {others[0].path} cannot be used to test it"
        return Finding(UNTRIED, said, others[0].writer)
    if skill is None:  # it may need another step, such as decoding labels
        return Finding(UNKNOWN, f"the predictions of {MODEL} cannot be graded in this form")
    said = f"{MODEL} predicts {_worded(skill)}"
    poor = _given_poor(case, skill)
    if (causes and skill > 0) or ((causes or poor) and _used_inputs(case)):
        cause = [*causes, *poor][0]
        return Finding(_worked_around(skill), f"{said}; {why(cause)}", cause.writer)
    allowed = None if poor else _allowed(case, facts)
    score = _scored(skill, 1.0 if allowed is None else allowed)
    return Finding(score, said, case.me if _falls_short(skill, allowed) else None)


def submission(case: Case) -> Finding | None:
    """Check the skill of the submission, as graded by the host. None: this agent wrote none."""
    required, graded = case.evidence.agent.requires, case.evidence.provisional_outcome
    if not required or unwritten(case):
        return None
    path = SUBMISSION if SUBMISSION in required else required[0]
    if case.evidence.truth is None or graded is None:
        return Finding(1.0, f"{path} is written; its content was not checked")
    facts = facts_of(case)
    causes = list(unsound_inputs(case))
    given = None if facts is None or causes else _grade_model(case, facts)
    seen = section(facts or {}, "model")
    constant = seen.get("constant") or (seen.get("one_answer") and graded.metrics.get("constant"))
    if constant or (given is not None and given <= 0):
        causes = causes or [_behind(case, given, "it predicts no better than the best constant")]
    scaled = facts is not None and _is_scaled(case, facts)
    if not constant and not causes and facts is not None and (given is None or scaled):
        # Its predictions have the form of its labels, or their scale.
        change = case.evidence.present.get(MODEL)
        causes += unsound_inputs(case, change) if change is not None and change.agent else ()
    if not causes and facts is not None and _two_faced(case, facts):
        causes = [_behind(case, 0.0, UNSTABLE)]
    if graded.status != "ok":
        return _bad(case, f"{path} is refused: {graded.reason}", causes)
    if graded.metrics.get("constant"):
        return _bad(case, f"{path} holds the same value in every row", causes)
    skill = float(graded.metrics.get("skill", 0.0))
    said = f"{path} is valid and predicts {_worded(skill)}"
    if causes and (skill > 0 or _used_inputs(case)):
        return Finding(_worked_around(skill), f"{said}; {why(causes[0])}", causes[0].writer)
    if given is None or facts is None:
        return Finding(_scored(skill, 1.0), said, case.me if skill <= 0 else None)
    if scaled and skill <= 0:
        return Finding(BLOCKED, f"{said}; perhaps it could not know the scale of {MODEL}'s predictions")
    answers = _skills(case, facts)
    if skill < SHORT * min(given, 1.0) - (max(answers) - min(answers)):
        return Finding(_scored(skill, given), f"{said}, worse than {MODEL} allows", case.me)
    short = _falls_short(given, _allowed(case, facts)) or _worthless(case, facts, given) is not None
    if short and skill < SHORT:
        cause = _behind(case, given, "it predicts worse than the tables allow")
        return Finding(_scored(skill, given), f"{said}; {why(cause)}", cause.writer)
    return Finding(_scored(skill, given), said)


def _is_scaled(case: Case, facts: Mapping[str, Any]) -> bool:
    """Whether the model predicts on the scale of y_train, which is not that of train.csv."""
    seen = section(facts, "model")
    if "undone" not in seen:
        return False
    plain = {name: value for name, value in seen.items() if name not in ("undone", "again")}
    return (_grade_model(case, {**facts, "model": plain}) or 0.0) <= 0


def _scored(skill: float, possible: float) -> float:
    """0-1. ``possible``: the skill that the inputs allowed without a repair."""
    skill, possible = min(max(skill, 0.0), 1.0), min(max(possible, 0.0), 1.0)
    lost = OWN_LOSS * max(possible - skill, 0.0)
    return max(1 - lost - INPUT_LOSS * (1 - max(possible, skill)), LEAST)


def _worked_around(skill: float) -> float:
    """0.6-1: from a skill that chance does not reach, two points more than stopping; then with the skill."""
    skill = min(max(skill, 0.0), 1.0)
    rest = 1 - BLOCKED - WORKAROUND
    return BLOCKED + min(skill, WORKAROUND) + rest * skill


def _worded(skill: float) -> str:
    return "no better than the best constant" if skill <= 0 else f"with skill {skill:.1f}"


def _falls_short(skill: float, allowed: float | None) -> bool:
    """Whether a model is to blame for its skill: it has much less than its tables allow.

    If the host cannot tell what they allow, a model without any skill is to blame.
    """
    if allowed is None:
        return skill <= 0
    return skill < SHORT and min(allowed, 1.0) - skill > 1 - SHORT


def _allowed(case: Case, facts: Mapping[str, Any], reference: float | None = None) -> float | None:
    """The skill of the host's own model of the tables; None if it has none, or it cannot be graded."""
    if case.evidence.truth is None:
        return None
    return _grade_model(case, {"model": section(facts, "allowed")}, reference)


def _worthless(case: Case, facts: Mapping[str, Any], skill: float = 0.0) -> Defect | None:
    """The tables, if neither the host's forest nor the model, with ``skill``, learns anything from them.

    None also where that cannot be told: the forest saw a part of the rows only, its probabilities may merely
    be too sure of themselves, or the reference learns little itself.
    """
    from mappa_env.grading.metrics import metric_named
    from mappa_env.grading.metrics import skill as skill_of
    from mappa_env.grading.submission import separation

    change, task, forest = case.evidence.present.get(FEATURES), case.evidence.task, section(facts, "allowed")
    if change is None or not change.agent or skill >= WORTHLESS or forest.get("partial"):
        return None
    metric = metric_named(task.metric)
    # Against a perfect score the skill is least, and the reference need not be fitted.
    for reference in (metric.ideal, None):
        allowed = _allowed(case, facts, reference)
        if allowed is None or allowed >= WORTHLESS:
            return None
    best, constant = float(task.truth["reference"]), float(task.truth["constant"])
    signed = section(facts, "checks").get("labels_kept") is True
    apart = separation(task, {"model": forest}, signed=signed)
    if skill_of(best, constant, metric.ideal, task.metric) < WORTHLESS or (
        metric.takes == "probability" if apart is None else apart >= APART
    ):
        return None
    return Defect(FEATURES, change.agent, "no model learns from it what test.csv asks for")


def _behind(case: Case, skill: float | None, reason: str) -> Defect:
    """The model as a cause: the doing of its writer, or of who handed that agent unsound or poor tables."""
    change = case.evidence.present[MODEL]
    found = [*unsound_inputs(case, change), *_poor(case, skill or 0.0)]
    return found[0] if found else Defect(MODEL, change.agent, reason)


def _given_poor(case: Case, skill: float = 0.0) -> list[Defect]:
    """The poor tables that another agent wrote, for this agent's model of ``skill``."""
    return [defect for defect in _poor(case, skill) if defect.writer != case.me]


def _poor(case: Case, skill: float = 0.0) -> list[Defect]:
    """Sound tables that are a poor basis: worthless, or with fewer than half of the task's columns or rows.

    A selection on which the host's own model has skill is none. ``skill``: that of the team's model.
    """
    facts = facts_of(case) or {}
    if (bare := _worthless(case, facts, skill)) is not None:
        return [bare]
    table, task, change = section(facts, "X_train"), case.evidence.task, case.evidence.present.get(FEATURES)
    cols, rows = int(table.get("cols") or 0), int(table.get("rows") or 0)
    offered = sum(len(task.meta.get("columns", {}).get(kind, ())) for kind in ("num", "cat"))
    given = int(section(facts, "checks").get("train_rows") or 0)
    if change is None or not change.agent or (cols * 2 >= offered and rows * 2 >= given):
        return []
    if (_allowed(case, facts) or 0.0) >= LITTLE:
        return []
    if cols and 2 * cols < offered:
        return [Defect(FEATURES, change.agent, f"it keeps only {cols} of {offered} columns")]
    if rows and 2 * rows < given:
        return [Defect(FEATURES, change.agent, f"it keeps only {rows} of {given} rows")]
    return []


def _grade_model(case: Case, facts: Mapping[str, Any], reference: float | None = None) -> float | None:
    """Skill of the predictions that the probe recorded, of two answers the worse; None: not to be graded."""
    return min(_skills(case, facts, reference), default=None)


def _two_faced(case: Case, facts: Mapping[str, Any]) -> bool:
    """Whether the two answers of the model differ much in skill."""
    skills = [min(max(skill, 0.0), 1.0) for skill in _skills(case, facts)]
    return bool(skills) and max(skills) - min(skills) > TWO_FACED


def _skills(case: Case, facts: Mapping[str, Any], reference: float | None = None) -> list[float]:
    """The skill of each answer of a model; none if one cannot be graded.

    Predictions are first clipped to the metric's range, as the next agent can do: without clipping, one
    confident wrong row makes the log loss unbounded.
    """
    from mappa_env.grading.metrics import metric_named
    from mappa_env.grading.submission import grade_model

    low, high = _RANGES.get(metric_named(case.evidence.task.metric).takes, (-math.inf, math.inf))
    seen, found = section(facts, "model"), []
    answers = [seen, {**seen, **again}] if (again := section(seen, "again")) else [seen]
    for answer in answers:
        # Numbers in the scale of y_train are as good as those in that of train.csv.
        undone = [{**answer, "predictions": answer["undone"]}] if "undone" in answer else []
        skills = []
        for each in (answer, *undone):
            clipped = {
                name: [_clipped(value, low, high) for value in each[name]]
                for name in ("probabilities", "predictions")
                if isinstance(each.get(name), list) and low > -math.inf
            }
            graded = grade_model(case.evidence.task, {**facts, "model": {**each, **clipped}}, reference)
            skills += [] if graded is None else [graded[1]]
        if not skills:
            return []
        found.append(max(skills))
    return found


def _clipped(value: Any, low: float, high: float) -> Any:
    """A prediction, or a row of them, within the range; other values stay."""
    if isinstance(value, list):
        return [_clipped(each, low, high) for each in value]
    return min(max(value, low), high) if isinstance(value, (int, float)) else value


def _used_inputs(case: Case) -> bool:
    """Whether a program uses an input of its agent: to ignore all of them is its own fault."""
    return any(run.uses(path) for run in case.programs for path in case.evidence.agent.reads)


def _bad(case: Case, said: str, causes: Sequence[Defect] = ()) -> Finding:
    """Unusable: by its own fault, or because of an unsound input that it used."""
    found = [*unsound_inputs(case), *causes]
    if found and _used_inputs(case):
        return Finding(BLOCKED, f"{said}; {why(found[0])}", found[0].writer)
    return Finding(UNUSABLE, said, case.me)
