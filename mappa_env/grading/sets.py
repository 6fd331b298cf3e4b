r"""Sets that a name or a condition says: ``\mathbb{R}``, ``\text{empty set}``, ``\{x\mid x\le5\}``."""

from __future__ import annotations

import re
from typing import NamedTuple

from mappa_env.grading.latex import CLOSE, OPEN
from mappa_env.grading.naming import is_variable
from mappa_env.grading.numbers import Number
from mappa_env.grading.tree import Answer, Expression, Infinity, Kind, Sequence

EMPTY = Expression("∅")
REALS = Sequence("()", (Infinity(-1), Infinity(1)))
_NAMES: dict[str, Expression | Sequence] = {
    **dict.fromkeys((r"\{\}", r"\{ \}", "Ø", "empty set", "the empty set", "null set"), EMPTY),
    **dict.fromkeys(("all reals", "all real numbers", "the real numbers", "the set of real numbers"), REALS),
    **dict.fromkeys(("set of all real numbers", "the set of all real numbers", r"\mathbb{R}"), REALS),
}
_EXCEPT = re.compile(
    r"(?:the )?(?:set of )?(?:all )?(?:the )?real(?: number)?s? ?(?:[a-z] )?"
    r"(?:except|other than|but|besides)(?: for)? ?(.+)",
    re.IGNORECASE,
)
_BUILDER = re.compile(r"\\\{ ?([^{}|:∈]{1,20}?) ?(?:∈ ?\\mathbb\{R\} ?)?(?:\\mid(?![A-Za-z])|\||:)(.+)\\\}")


class Condition(NamedTuple):
    """``text``: what holds for the variable ``name`` of a set's elements."""

    name: str
    text: str


def named_set(text: str) -> Expression | Sequence | None:
    """The set whose name a cleaned text is; None if it is anything else."""
    return _NAMES.get(text) or _NAMES.get(text.strip(f"{OPEN}{CLOSE} ").lower())


def exceptions(text: str) -> str | None:
    """What ``\\text{all real numbers except }1`` excepts; None if the text is anything else."""
    found = _EXCEPT.fullmatch(" ".join(text.replace(OPEN, "").replace(CLOSE, "").split()))
    return found[1] if found else None


def condition(text: str) -> Condition | None:
    r"""The condition of ``\{x\mid x\le5\}``, for real ``x``; None if the text is no such set."""
    found = _BUILDER.fullmatch(text)
    return Condition(found[1], found[2]) if found and is_variable(found[1]) else None


def unnamed(answer: Answer) -> Answer:
    """Intervals without the variable that says them, which is of no account in a set."""
    if not isinstance(answer, Sequence):
        return answer
    items = tuple(map(unnamed, answer.items)) if answer.kind == "union" else answer.items
    return Sequence(answer.kind, items)


def common(one: Answer, other: Answer) -> Sequence | None:
    """The interval of ``x > -2 and x < 3``; None if the conditions are no two bounds of one variable."""
    if not isinstance(one, Sequence) or not isinstance(other, Sequence) or one.names != other.names:
        return None
    if len(one.names) != 1 or len(one.items) != 2 or len(other.items) != 2:
        return None
    low, high = (one, other) if one.items[1] == Infinity(1) else (other, one)
    if low.items[1] != Infinity(1) or high.items[0] != Infinity(-1):
        return None
    bottom, top = low.items[0], high.items[1]
    if isinstance(bottom, Number) and isinstance(top, Number) and bottom.value >= top.value:
        return None
    kind: Kind = f"{low.kind[0]}{high.kind[1]}"  # type: ignore[assignment]
    return Sequence(kind, (bottom, top), one.names)


def fulfils(answer: Answer | None, name: str) -> bool:
    """Whether an answer is an interval, or a union of them, that a condition on the variable ``name`` is."""
    if not isinstance(answer, Sequence):
        return False
    if answer.kind == "union":
        return all(fulfils(item, name) for item in answer.items)
    return answer.kind[0] in "([" and answer.names == (name,)
