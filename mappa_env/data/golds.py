"""The gold of a problem's row, checked: what the maths grader could not read is refused here."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Literal, get_args

from mappa_env.data.rows import Row, answer_of
from mappa_env.errors import DataError, nearest
from mappa_env.grading.math import Gold, grade_answer, read_gold, unreadable
from mappa_env.grading.numbers import Number
from mappa_env.types import Task

AnswerType = Literal["integer", "expression"]
LARGEST = 999
"""AIME answers are integers from 0 to this."""


def gold_of(row: Row, *, whole: bool = False) -> dict[str, str]:
    """The truth of a row: its ``answer`` and, if the row has one, its ``answer_type``.

    ``whole``: the answer must be an integer from 0 to 999, or several that were accepted, unless the row's
    ``answer_type`` is ``expression``. Raises DataError.
    """
    answer = answer_of(row)
    chosen = row.get("answer_type")
    known = get_args(AnswerType)
    if chosen is not None and chosen not in known:
        raise DataError(
            f"answer_type={chosen!r:.60} is unknown; use one of {known}." + nearest(str(chosen), known)
        )
    if whole if chosen is None else chosen == "integer":
        accepted = read_gold(answer).accepted
        if not accepted or not all(isinstance(each, Number) and _whole(each) for each in accepted):
            raise DataError(
                f"the answer {answer!r:.60} is not an integer from 0 to {LARGEST}; "
                "if it is right, give the row answer_type: expression."
            )
    if not read_gold(answer).accepted:
        raise DataError(f"the answer {answer!r:.60} cannot be graded: {unreadable(answer)}.")
    return {"answer": answer} if chosen is None else {"answer": answer, "answer_type": chosen}


def refused_golds(tasks: Iterable[Task]) -> dict[str, str]:
    """Task id -> why algebra cannot read its gold; empty if it can read them all. Asks two at a time."""
    ids, golds = [], []
    for task in tasks:
        if not read_gold(task.truth["answer"]).written:
            ids.append(task.id)
            golds.append(task.truth["answer"])
    with ThreadPoolExecutor(2) as threads:
        reasons = list(threads.map(unreadable, golds))
    return {
        own: f"the answer {gold!r:.60} cannot be graded: {reason}"
        for own, gold, reason in zip(ids, golds, reasons, strict=True)
        if reason
    }


def same_gold(one: str, other: str) -> bool:
    """Whether two golds of one problem are the same answer: ``080`` and ``80``, or ``x+1`` and ``1+x``.

    A gold of several answers has the same ones in any order. Algebra takes milliseconds per expression.
    """
    golds = read_gold(one), read_gold(other)
    if one == other or golds[0].accepted == golds[1].accepted:
        return True
    if any(len(gold.accepted) > 1 for gold in golds):
        return _values(golds[0]) == _values(golds[1])
    return any(grade_answer(rf"\boxed{{{a}}}", b).correct for a, b in ((one, other), (other, one)))


def _values(gold: Gold) -> frozenset[object]:
    """The accepted answers, numbers without what only their spelling says."""
    return frozenset(
        (each.value, each.unit, each.percent) if isinstance(each, Number) else each for each in gold.accepted
    )


def _whole(number: Number) -> bool:
    return number.angle is not None and 0 <= number.angle <= LARGEST
