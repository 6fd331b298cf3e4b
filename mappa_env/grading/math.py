r"""Math answers: compares the last ``\boxed{}`` after the thinking with the accepted golds, exactly.

Integers are compared here. math-verify compares everything else, in a worker process that is killed when it
takes too long: an answer is hostile text, which can make computer algebra run forever.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from mappa_env.parsing import last_boxed, split_thinking
from mappa_env.types import ActionRecord, Outcome, Task

if TYPE_CHECKING:
    from mappa_env.workspace.workspace import Workspace

MathStatus = Literal["ok", "no_answer", "no_box", "too_long", "unreadable", "timeout", "error"]

MAX_BOX = 300
"""Longest box, in characters, that is judged."""

_OR = re.compile(r"\s+or\s+|\\text\{\s*or\s*\}")
_REMARK = re.compile(r"\((?:[a-z]+ ?){2,}\)")  # "(both were accepted)"
_DECORATION = re.compile(
    r"\\[,;:! ]|\^\{?\\circ\}?|\\degree|\\left(?![a-z])|\\right(?![a-z])|\\?%|\$|(?<![0-9])\s+|\s+(?![0-9])"
)
"""Spacing (except between digits), dollar, degree and percent signs: ignored on both sides, so that
``2300\\%`` is 2300 and never 23."""
_PERCENT = re.compile(r"\\?%")
_INTEGER = re.compile(r"([+-]?)0*([0-9]+)(?:\.0*)?")
_GROUPED = re.compile(r"[+-]?[0-9]{1,3}(?:(?:,|\{,\})[0-9]{3})+")


@dataclass(frozen=True, slots=True)
class MathGrade:
    """The grade of an answer. A ``status`` other than ``ok`` is the reason why it could not be judged.

    Such an answer is not correct. ``extracted`` is the content of the box (None: there is no box).
    """

    correct: bool
    status: MathStatus
    extracted: str | None


def alternatives(gold: str) -> list[str]:
    """The accepted answers of a gold: ``["80", "81"]`` for ``"080 or 081 (both were accepted)"``."""
    parts = [part.strip() for part in _OR.split(_REMARK.sub("", str(gold)).strip())]
    return [_integer(part) or part for part in parts if part] or [str(gold)]


def grade_answer(pred_text: str, gold: str) -> MathGrade:
    """Judge the last box of a whole reply (thinking is skipped). Never raises, takes at most two seconds."""
    _, answer = split_thinking(pred_text)
    if not answer.strip():
        return MathGrade(False, "no_answer", None)
    box = last_boxed(answer)
    if box is None:
        return MathGrade(False, "no_box", None)
    if len(box) > MAX_BOX:
        return MathGrade(False, "too_long", box[:MAX_BOX])
    golds = alternatives(gold)
    bare, whole = _DECORATION.sub("", box), _integer(box)
    if bare and (whole in golds or bare in [_DECORATION.sub("", g) for g in golds]):
        return MathGrade(True, "ok", box)
    if whole is not None and all(_integer(g) is not None for g in golds):
        return MathGrade(False, "ok", box)
    if not bare:
        return MathGrade(False, "unreadable", box)
    from mappa_env.grading.math_pool import shared_pool

    without = _PERCENT.sub("", box)
    status, correct = shared_pool().verify(without, [_PERCENT.sub("", g) for g in golds])
    return MathGrade(correct, status, box)


def _integer(text: str) -> str | None:
    """The canonical decimal of a plainly written integer (``" 080. "``, ``"1{,}292"``, ``"336^\\circ"``)."""
    text = _DECORATION.sub("", text)
    if _GROUPED.fullmatch(text):
        text = re.sub(r"[{},]", "", text)
    match = _INTEGER.fullmatch(text)
    if match is None:
        return None
    sign, digits = match.groups()
    return f"-{digits}" if sign == "-" and digits != "0" else digits


class MathGrader:
    """Grades the last action of ``agent`` (default: the agent that closed the episode)."""

    def __init__(self, agent: str | None = None) -> None:
        self._agent = agent

    def grade(self, task: Task, actions: Sequence[ActionRecord], workspace: Workspace | None) -> Outcome:
        """Grade the box of the last action against ``task.truth["answer"]``."""
        last = self._last(actions)
        gold = str(task.truth["answer"])
        grade = grade_answer(last.action if last else "", gold)
        score = float(grade.correct)
        return Outcome(score, grade.correct, grade.status, _reason(grade, gold), {"accuracy": score})

    def answer(self, actions: Sequence[ActionRecord]) -> str | None:
        """The content of the last box: an integer in canonical form, else the text without decoration."""
        last = self._last(actions)
        box = last_boxed(split_thinking(last.action)[1]) if last else None
        if box is None or len(box) > MAX_BOX:
            return None
        return _integer(box) or _DECORATION.sub("", box) or None

    def _last(self, actions: Sequence[ActionRecord]) -> ActionRecord | None:
        return next((a for a in reversed(actions) if self._agent in (None, a.agent)), None)


def _reason(grade: MathGrade, gold: str) -> str:
    if grade.status == "ok":
        return f"boxed {grade.extracted!r}, which is {'right' if grade.correct else f'not {gold!r}'}"
    return {
        "no_answer": "the closing action has no answer",
        "no_box": r"the closing action has no \boxed{}",
        "too_long": f"the box has more than {MAX_BOX} characters",
        "unreadable": f"the box {grade.extracted!r} is not a mathematical expression",
        "timeout": f"the box {grade.extracted!r} took too long to evaluate",
        "error": f"the box {grade.extracted!r} broke the evaluation",
    }[grade.status]
