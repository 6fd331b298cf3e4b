r"""Math answers: compares the last ``\boxed{}`` after the thinking with the accepted golds, exactly.

Numbers, words, lists, points and intervals are compared here. math-verify compares expressions, in a worker
process that ends when it takes too long: an answer is hostile text, which can make algebra run forever.

If the gold is a number, the answer must be one too, written in full: ``7 + 5``, ``\sqrt{144}`` or ``24/2``
are wrong for 12, since they can be copied from a problem.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

from mappa_env.grading.answers import read_answer
from mappa_env.grading.latex import clean, to_latex
from mappa_env.grading.matching import matches, questions
from mappa_env.grading.numbers import LONGEST, Number, read_number
from mappa_env.grading.tree import Answer, Expression, leaves
from mappa_env.grading.votes import vote_of
from mappa_env.parsing import last_boxed, split_thinking
from mappa_env.types import ActionRecord, Outcome, Task

if TYPE_CHECKING:
    from mappa_env.workspace.workspace import Workspace

MathStatus = Literal["ok", "no_answer", "no_box", "too_long", "unreadable", "unevaluated", "timeout", "error"]

MAX_BOX = 300
"""Longest box, in characters, that is judged."""
MAX_GOLD = 1000
"""Longest gold, in characters."""


_INTEGER = re.compile(r"[+-]?[0-9]+|[+-]?[1-9][0-9]{0,2}(?:,[0-9]{3})+")


@dataclass(frozen=True, slots=True)
class MathGrade:
    """The grade of an answer. A ``status`` other than ``ok`` is the reason why it could not be judged.

    Such an answer is not correct. ``extracted`` is the content of the box (None: there is no box).
    """

    correct: bool
    status: MathStatus
    extracted: str | None


@dataclass(frozen=True)
class Gold:
    """A gold, read once. ``accepted``: the answers, each of which is right; empty if it is unreadable."""

    text: str
    accepted: tuple[Answer, ...]

    @functools.cached_property
    def integers(self) -> frozenset[int]:
        """The accepted answers, if all are integers without unit or percent sign; else empty."""
        whole = [each.whole if isinstance(each, Number) else None for each in self.accepted]
        return frozenset(each for each in whole if each is not None) if None not in whole else frozenset()

    @functools.cached_property
    def written(self) -> bool:
        """Whether it is all numbers and words, so that an answer needs no algebra."""
        return all(not isinstance(leaf, Expression) for each in self.accepted for leaf in leaves(each))


@functools.lru_cache(maxsize=65536)
def read_gold(text: str) -> Gold:
    """Read a gold. ``80 or 81`` accepts both, as a remark ``(both were accepted)`` says too.

    Only numbers are alternatives: ``x = 1 or x = 2`` is one answer with two values.
    """
    text = str(text).strip()
    if not text or len(text) > MAX_GOLD:
        return Gold(text, ())
    if len(text) <= LONGEST and _INTEGER.fullmatch(text):  # most golds
        return Gold(text, (Number(Fraction(text.replace(",", ""))),))
    numbers = [read_number(part.strip(" $")) for part in _parts(text)]
    if len(numbers) > 1 and None not in numbers:
        return Gold(text, tuple(number for number in numbers if number is not None))
    answer = read_answer(text)
    return Gold(text, () if answer is None else (answer,))


@functools.lru_cache(maxsize=65536)
def unreadable(text: str) -> str:
    """Why a gold cannot be used; empty if it can. Expressions are read by a worker."""
    gold = read_gold(text)
    if len(gold.text) > MAX_GOLD:
        return f"it has more than {MAX_GOLD} characters"
    if not gold.accepted:
        return "it is empty or its braces do not match"
    if not gold.written:
        from mappa_env.grading.math_pool import shared_pool

        for each in gold.accepted:
            for leaf in leaves(each):
                if isinstance(leaf, Expression) and not shared_pool().readable(to_latex(leaf.text)):
                    return f"{leaf.text!r:.60} is not a mathematical expression"
    return ""


def alternatives(gold: str) -> list[str]:
    """The accepted answers of a gold: ``["80", "81"]`` for ``"080 or 081 (both were accepted)"``."""
    found = read_gold(gold)
    if len(found.accepted) > 1 or (found.accepted and isinstance(found.accepted[0], Number)):
        whole = [each.angle if isinstance(each, Number) else None for each in found.accepted]
        if None not in whole:
            return [str(each) for each in whole]
        return [part.strip() for part in _parts(found.text)] if len(whole) > 1 else [found.text]
    return [found.text]


def grade_answer(pred_text: str, gold: str) -> MathGrade:
    """Judge the last box of a whole reply (thinking is skipped). Never raises."""
    _, answer = split_thinking(pred_text)
    if not answer.strip():
        return MathGrade(False, "no_answer", None)
    box = last_boxed(answer)
    if box is None:
        return MathGrade(False, "no_box", None)
    if len(box) > MAX_BOX:
        return MathGrade(False, "too_long", box[:MAX_BOX])
    status, correct = _judge(read_gold(gold), box)
    return MathGrade(correct, status, box)


def _judge(gold: Gold, box: str) -> tuple[MathStatus, bool]:
    if gold.integers and _INTEGER.fullmatch(box):  # most answers
        return "ok", int(box.replace(",", "")) in gold.integers
    answer = read_answer(box)
    if answer is None:
        return "unreadable", False
    if not gold.accepted:
        return "error", False
    if clean(box) == clean(gold.text):
        return "ok", True
    known: dict[tuple[str, str], bool] = {}
    pairs = list(dict.fromkeys(pair for each in gold.accepted for pair in questions(each, answer)))
    status: MathStatus = "ok"
    if pairs and not any(matches(each, answer, lambda _: False) for each in gold.accepted):
        from mappa_env.grading.math_pool import shared_pool

        status, found = shared_pool().compare([(to_latex(a), to_latex(b)) for a, b in pairs])
        known = dict(zip(pairs, found, strict=True))
    correct = any(matches(each, answer, lambda pair: known.get(pair, False)) for each in gold.accepted)
    if correct:
        return "ok", True
    if gold.written and any(map(_unevaluated, leaves(answer))):
        status = "unevaluated"
    return status, False


def _unevaluated(leaf: Answer) -> bool:
    in_full = not isinstance(leaf, Number) or (leaf.reducible is None and not leaf.words)
    return isinstance(leaf, Expression) or not in_full


def _parts(text: str) -> list[str]:
    """The text without a remark at its end, at each ``or``."""
    start = text.rfind("(")
    if start > 0 and text.endswith(")") and "accepted" in text[start:]:
        text = text[:start].rstrip()
    text = clean(text)
    for mark in ("⟦or⟧", "⟦ or ⟧", "⟦ or⟧", "⟦or ⟧"):
        text = text.replace(mark, " or ")
    return text.split(" or ")


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
        r"""The last box in one spelling per value: ``0.5``, ``1/2`` and ``\frac12`` are one answer."""
        last = self._last(actions)
        box = last_boxed(split_thinking(last.action)[1]) if last else None
        if box is None or len(box) > MAX_BOX:
            return None
        read = read_answer(box)
        return clean(box) or None if read is None else vote_of(read)

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
        "unevaluated": f"the box {grade.extracted!r} is not written as a number, as {gold!r} is",
        "timeout": f"the box {grade.extracted!r} took too long to evaluate",
        "error": f"the box {grade.extracted!r} broke the evaluation",
    }[grade.status]
