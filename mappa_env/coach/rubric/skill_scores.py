"""The scores of tables, models and submissions.

Quality is skill: 0 for the best constant, 1 for the reference model, by one formula for every metric, so
that classification and regression are judged by the same standard. An agent pays in full for the skill that
it lost itself, and less than half of that for what its inputs lacked::

    score = 1 - 0.85 * own loss - 0.4 * what the inputs lacked, at least 0.15
    0.1    unusable by its own fault (does not load, leaks the target, wrong rows, refused, one constant)
    0.2    the same, made from nothing that was handed on, or unusable whatever that is, where it was unsound
    0.6    as good as unsound inputs allow: nothing is gained, and no skill of its own is lost
    0.8    and more: skill of 0.2 and more in spite of unsound inputs, that is, a workaround
"""

from __future__ import annotations

from collections.abc import Sequence

from mappa_env.coach.rubric.artifacts import Defect, sure_defects
from mappa_env.coach.rubric.case import Case, Finding
from mappa_env.coach.rubric.checks_work import BLOCKED, IDLE, why
from mappa_env.coach.rubric.inputs import unsound_inputs

UNUSABLE, LEAST = 0.1, 0.15
OWN_LOSS, INPUT_LOSS = 1 - LEAST, 1 - BLOCKED
WORKAROUND = 0.2
"""What a skill of as much, reached in spite of unsound inputs, adds to the score of a blocked agent."""


def scored(skill: float, possible: float) -> float:
    """0-1. ``possible``: the skill that the inputs allowed without a repair."""
    skill, possible = min(max(skill, 0.0), 1.0), min(max(possible, 0.0), 1.0)
    lost = OWN_LOSS * max(possible - skill, 0.0)
    return max(1 - lost - INPUT_LOSS * (1 - max(possible, skill)), LEAST)


def worked_around(skill: float) -> float:
    """0.6-1: from a skill that chance does not reach, two points more than stopping; then with the skill."""
    skill = min(max(skill, 0.0), 1.0)
    rest = 1 - BLOCKED - WORKAROUND
    return BLOCKED + min(skill, WORKAROUND) + rest * skill


def worded(skill: float) -> str:
    """``skill`` in words."""
    return "no better than the best constant" if skill <= 0 else f"with skill {skill:.1f}"


def used_inputs(case: Case) -> bool:
    """Whether a program uses an input of its agent: to ignore all of them is its own fault."""
    return any(run.uses(path) for run in case.programs for path in case.evidence.agent.reads)


def unusable(case: Case, said: str, causes: Sequence[Defect] = (), *, clear: bool = False) -> Finding:
    """Unusable: by its own fault, or because of an unsound input that it used.

    ``clear``: no input that may be sound explains it.
    """
    found = [*unsound_inputs(case), *causes]
    found = sure_defects(found) if clear else found
    if found and used_inputs(case):
        return Finding(BLOCKED, f"{said}; {why(found[0])}", found[0].writer)
    return Finding(IDLE if found else UNUSABLE, said, case.me)
