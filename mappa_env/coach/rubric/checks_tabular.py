"""Checks of what teams that solve tabular tasks hand on: the tables, the model and the submission.

They apply once an agent has written all of its files. Quality is skill: 0 for the best constant, 1 for the
reference model, by one formula for every metric, so that classification and regression are judged by the same
standard. An agent pays in full for the skill that it lost itself, and less than half of that for what its
inputs lacked::

    score = 1 - 0.85 * own loss - 0.4 * what the inputs lacked, at least 0.15
    0.1    unusable by its own fault (does not load, leaks the target, wrong rows, refused, one constant)
    0.2    the same, made from nothing that was handed on, or unusable whatever that is, where it was unsound
    0.6    as good as unsound inputs allow: nothing is gained, and no skill of its own is lost
    0.8    and more: skill of 0.2 and more in spite of unsound inputs, that is, a workaround
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mappa_env.coach.rubric.artifacts import (
    FOLLOWS,
    LABELS,
    MODEL,
    UNSTABLE,
    Defect,
    defects,
    facts_of,
    is_bundle,
    other_format,
    section,
    unknown_work,
)
from mappa_env.coach.rubric.case import Case, Finding
from mappa_env.coach.rubric.checks_work import BLOCKED, IDLE, unwritten, why
from mappa_env.coach.rubric.inputs import unsound_inputs
from mappa_env.coach.rubric.model_skill import (
    SHORT,
    UNDONE,
    falls_short,
    needs_beside,
    skill_of_model,
    skills_of_model,
    two_faced,
)
from mappa_env.coach.rubric.poor_tables import allowed_skill, poor_tables, worthless_tables
from mappa_env.coach.rubric.submission_form import flaw_of

TEST, SUBMISSION = "X_test.pkl", "submission.csv"
UNUSABLE, LEAST = 0.1, 0.15
OWN_LOSS, INPUT_LOSS = 1 - LEAST, 1 - BLOCKED
UNKNOWN = 0.5
"""The score of a model whose predictions cannot be graded."""
UNTRIED = 0.8
"""The score of a model that can predict, without a sound table to test it on."""
UNLIKE = 0.5
"""A submission that follows the model less than this is made from something else."""
_SCALE = f"perhaps it could not know the scale of {MODEL}'s predictions"
WORKAROUND = 0.2
"""What a skill of as much, reached in spite of unsound inputs, adds to the score of a blocked agent."""


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
    if (bare := worthless_tables(case, facts)) is not None:
        return Finding(worthless, f"{bare.path}: {bare.reason}", bare.writer)
    if thin := poor_tables(case):
        return Finding(poor, f"{thin[0].path}: {thin[0].reason}", thin[0].writer)
    if section(facts, "checks").get("id_kept"):
        return Finding(id_kept, "the identifier is among the features")
    return Finding(1.0, "the tables are sound")


def model(case: Case) -> Finding | None:
    """Check how well the model that this agent wrote predicts.

    None: it has written none that can be read, or nobody can tell what its codes stand for.
    """
    if unwritten(case):
        return None
    facts = facts_of(case)
    if facts is not None and is_bundle(section(facts, "model")):
        return _bundle(case, facts)
    if unknown_work(case) is not None:
        return None
    if facts is None:
        return Finding(1.0, f"{MODEL} is written; its content was not checked")
    found, seen = defects(case), section(facts, "model")
    own = [defect for defect in found if defect.writer == case.me and not defect.unclear]
    others = [defect for defect in found if defect.writer not in ("", case.me)]
    closed = seen.get("plain") is False and not other_format(seen)
    hopeless = closed or not seen.get("has_predict") or "probe_failed" in facts
    if own and hopeless and not any(cause.fills for cause in unsound_inputs(case)):
        score = IDLE if unsound_inputs(case) else UNUSABLE
        return Finding(score, f"{own[0].path} is unusable: {own[0].reason}", case.me)
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
    causes = _clear([*unsound_inputs(case), *others])
    if seen.get("constant") and section(seen, "beside").get("constant", True):
        return _bad(
            case, f"{MODEL} predicts the same value for every row", [*causes, *_given_poor(case)], clear=True
        )
    if case.evidence.truth is None:
        return Finding(1.0, f"{MODEL} predicts every row of X_test.pkl")
    if two_faced(case, facts):
        return _bad(case, f"{MODEL} is unusable: {UNSTABLE}", causes, clear=True)
    skill = skill_of_model(case, facts)
    if skill is None and others:
        said = f"{MODEL} can predict; {others[0].path} cannot be used to test it"
        return Finding(UNTRIED, said, "" if others[0].unclear else others[0].writer)
    if skill is None and any(defect.path == MODEL and defect.unclear for defect in found):
        return None
    if skill is None:  # it may need another step, such as decoding labels
        return Finding(UNKNOWN, f"the predictions of {MODEL} cannot be graded in this form")
    said = f"{MODEL} predicts {_worded(skill)}"
    poor = _given_poor(case, skill)
    if (causes and skill > 0) or ((causes or poor) and _used_inputs(case)):
        cause = [*causes, *poor][0]
        return Finding(_worked_around(skill), f"{said}; {why(cause)}", cause.writer)
    allowed = None if poor else allowed_skill(case, facts)
    score = _scored(skill, 1.0 if allowed is None else allowed)
    if allowed is None and _used_inputs(case):  # nobody can tell what the tables allow
        return Finding(max(score, UNKNOWN), said)
    short = falls_short(skill, allowed) or (allowed is None and skill <= 0)
    return Finding(score, said, case.me if short else None)


def _bundle(case: Case, facts: Mapping[str, Any]) -> Finding | None:
    """A model beside other things: as good as it is alone. None: it is not, so it may need the others."""
    said = f"the {section(facts, 'model').get('type', 'model')} in {MODEL} predicts"
    if case.evidence.truth is None:
        return Finding(1.0, f"{said} every row of {TEST}") if _is_sure(case, facts) else None
    skill = skill_of_model(case, facts) if _is_sure(case, facts) else None
    return (
        None if skill is None else Finding(_scored(skill, allowed_skill(case, facts) or 1.0), f"{said} well")
    )


def _is_sure(case: Case, facts: Mapping[str, Any]) -> bool:
    """Whether the answers of a model are its own: one that does well needs nothing that lies beside it."""
    seen = section(facts, "model")
    if not is_bundle(seen):
        return True
    if not seen.get("predicts") or seen.get("constant") or seen.get("stable") is False:
        return False
    skill = skill_of_model(case, facts)
    return case.evidence.truth is None or (
        skill is not None and skill > 0 and not falls_short(skill, allowed_skill(case, facts))
    )


def submission(case: Case) -> Finding | None:
    """Check the skill of the submission, as graded by the host. None: this agent wrote none."""
    required, graded = case.evidence.agent.requires, case.evidence.provisional_outcome
    if not required or unwritten(case):
        return None
    path = SUBMISSION if SUBMISSION in required else required[0]
    if case.evidence.truth is None or graded is None:
        return Finding(1.0, f"{path} is written; its content was not checked")
    facts = facts_of(case)
    if facts is not None and not _is_sure(case, facts):
        facts = {**facts, "model": {"exists": True, "unknown": True}}
    found = unsound_inputs(case)
    causes, unclear = _clear(found), [cause for cause in found if cause.unclear]
    if facts is not None and (file := needs_beside(case, facts)) is not None:
        causes.append(Defect(MODEL, "", f"without {file}, which lies beside it, it is much worse"))
    given = None if facts is None or causes else skill_of_model(case, facts)
    causes += unclear if given is None else ()
    sound = not causes
    seen = section(facts or {}, "model")
    constant = seen.get("constant") or (seen.get("one_answer") and graded.metrics.get("constant"))
    worthless = not causes and (constant or (given is not None and given <= 0))
    if worthless:
        cause = _behind(case, given, "it predicts no better than the best constant")
        allowed = None if facts is None else allowed_skill(case, facts)
        if cause.path == MODEL and not constant and not falls_short(given or 0, allowed):
            cause = cause._replace(writer="")  # as good as the host's own on these tables
        causes = [cause]
    scaled = facts is not None and _is_scaled(case, facts)
    if not causes and facts is not None and (given is None or scaled):
        # Its predictions have the form of its labels, or their scale.
        causes += _of_modeler(case)
    if not causes and facts is not None and two_faced(case, facts):
        causes = [_behind(case, 0.0, UNSTABLE)]
    follows, skill = case.evidence.follows, float(graded.metrics.get("skill", 0.0))
    misread = given is not None and _is_misread(follows, skill, given)
    if not causes and given is not None and (graded.status == "values" or misread):
        # The codes of its predictions may have been all that its agent knew.
        causes += unclear or [cause for cause in _of_modeler(case) if cause.unclear or misread]
    full = any(cause.fills for cause in causes)
    if causes and not full and (flaw := flaw_of(case, path, graded)) is not None:
        return Finding(IDLE, flaw, case.me)
    at_fault = follows is not None and follows < FOLLOWS
    if scaled and not causes and graded.status == "range" and not at_fault:
        return Finding(BLOCKED, f"{path} is refused: {graded.reason}; {_SCALE}")
    if graded.status != "ok":
        return _bad(case, f"{path} is refused: {graded.reason}", causes)
    if graded.metrics.get("constant"):
        return _bad(case, f"{path} holds the same value in every row", causes, clear=given is not None)
    said = f"{path} is valid and predicts {_worded(skill)}"
    alone = sound and (worthless or scaled) and {cause.path for cause in causes} <= {MODEL, LABELS}
    if causes and alone and skill <= 0 and _is_made_up(case):
        return Finding(IDLE, f"{said}, and comes neither from {MODEL} nor from the training data", case.me)
    if causes and (skill > 0 or _used_inputs(case)):
        return Finding(_worked_around(skill), f"{said}; {why(causes[0])}", causes[0].writer)
    if given is None or facts is None:
        if follows is not None and not at_fault:
            return Finding(_scored(skill, skill), f"{said}, and is what {MODEL} predicts")
        return Finding(_scored(skill, 1.0), said, case.me if skill <= 0 else None)
    answers = skills_of_model(case, facts)
    less = skill < SHORT * min(given, 1.0) - (max(answers) - min(answers))
    if less and not at_fault and (scaled or _is_renamed(case, facts)):
        doubt = _SCALE if scaled else "perhaps a file says wrongly what the codes stand for"
        return Finding(max(BLOCKED, _scored(skill, given)), f"{said}; {doubt}")
    if less:
        return Finding(_scored(skill, given), f"{said}, worse than {MODEL} allows", case.me)
    short = falls_short(given, allowed_skill(case, facts)) or worthless_tables(case, facts, given) is not None
    if short and skill < SHORT:
        cause = _behind(case, given, "it predicts worse than the tables allow")
        return Finding(_scored(skill, given), f"{said}; {why(cause)}", cause.writer)
    return Finding(_scored(skill, given), said)


def _is_scaled(case: Case, facts: Mapping[str, Any]) -> bool:
    """Whether the model predicts on the scale of y_train, and clearly worse than on that of train.csv."""
    seen = section(facts, "model")
    if "undone" not in seen:
        return False
    plain = {name: value for name, value in seen.items() if name not in (*UNDONE, "again")}
    skill, undone = skill_of_model(case, {**facts, "model": plain}) or 0.0, skill_of_model(case, facts) or 0.0
    return skill <= 0 or skill < SHORT * min(undone, 1.0)


def _is_misread(follows: float | None, skill: float, given: float) -> bool:
    """Whether a submission has the model's answers and not its skill: they stand for other labels."""
    return follows is not None and follows >= FOLLOWS and skill < SHORT * min(given, 1.0)


def _is_renamed(case: Case, facts: Mapping[str, Any]) -> bool:
    """Whether a submission has the model's answers under other names, by a file that tells about its codes.

    What that file says, nobody can tell.
    """
    checks, model = section(facts, "checks"), section(facts, "model")
    coded = min(model.get("answers_named", 1.0), checks.get("labels_known", 1.0)) < 1
    codings = [*checks.get("codings", ()), *checks.get("codings_unclear", ())]
    used = any(run.uses(path) for run in case.programs for path in codings if path != MODEL)
    return case.evidence.follows is not None and coded and used


def _is_made_up(case: Case) -> bool:
    """Whether a submission has nothing to do with the model, and no program could have trained another."""
    follows, training = case.evidence.follows, {"train.csv", "X_train.pkl", "y_train.pkl"}
    opened = [run.tool.opened for run in case.programs]
    seen = not any(files is None or training.intersection(files) for files in opened)
    return follows is not None and follows < UNLIKE and seen


def _of_modeler(case: Case) -> Sequence[Defect]:
    """The unsound inputs of the agent that wrote the model."""
    change = case.evidence.present.get(MODEL)
    return unsound_inputs(case, change) if change is not None and change.agent else ()


def _clear(causes: Iterable[Defect]) -> list[Defect]:
    """Without those that may be none: predictions that can be graded show what they came to."""
    return [cause for cause in causes if not cause.unclear]


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


def _behind(case: Case, skill: float | None, reason: str) -> Defect:
    """The model as a cause: the doing of its writer, or of who handed that agent unsound or poor tables."""
    change = case.evidence.present[MODEL]
    found = [*_clear(unsound_inputs(case, change)), *poor_tables(case, skill or 0.0)]
    return found[0] if found else Defect(MODEL, change.agent, reason)


def _given_poor(case: Case, skill: float = 0.0) -> list[Defect]:
    """The poor tables that another agent wrote, for this agent's model of ``skill``."""
    return [defect for defect in poor_tables(case, skill) if defect.writer != case.me]


def _used_inputs(case: Case) -> bool:
    """Whether a program uses an input of its agent: to ignore all of them is its own fault."""
    return any(run.uses(path) for run in case.programs for path in case.evidence.agent.reads)


def _bad(case: Case, said: str, causes: Sequence[Defect] = (), *, clear: bool = False) -> Finding:
    """Unusable: by its own fault, or because of an unsound input that it used.

    ``clear``: no input that may be sound explains it.
    """
    found = [*unsound_inputs(case), *causes]
    found = _clear(found) if clear else found
    if found and _used_inputs(case):
        return Finding(BLOCKED, f"{said}; {why(found[0])}", found[0].writer)
    return Finding(IDLE if found else UNUSABLE, said, case.me)
