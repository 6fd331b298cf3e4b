r"""Sets that a name or a condition says: ``\mathbb{R}``, ``\text{empty set}``, ``\{x\mid x\le5\}``."""

from __future__ import annotations

import re
from typing import NamedTuple

from mappa_env.grading.latex import CLOSE, OPEN
from mappa_env.grading.naming import is_variable
from mappa_env.grading.tree import Answer, Expression, Infinity, Sequence

EMPTY = Expression("∅")
REALS = Sequence("()", (Infinity(-1), Infinity(1)))
_NAMES: dict[str, Expression | Sequence] = {
    **dict.fromkeys((r"\{\}", r"\{ \}", "Ø", "empty set", "the empty set", "null set"), EMPTY),
    **dict.fromkeys(("all reals", "all real numbers", "the real numbers", "the set of real numbers"), REALS),
    **dict.fromkeys(("set of all real numbers", "the set of all real numbers", r"\mathbb{R}"), REALS),
}
_BUILDER = re.compile(r"\\\{ ?([^{}|:∈]{1,20}?) ?(?:∈ ?\\mathbb\{R\} ?)?(?:\\mid(?![A-Za-z])|\||:)(.+)\\\}")


class Condition(NamedTuple):
    """``text``: what holds for the variable ``name`` of a set's elements."""

    name: str
    text: str


def named_set(text: str) -> Expression | Sequence | None:
    """The set whose name a cleaned text is; None if it is anything else."""
    return _NAMES.get(text) or _NAMES.get(text.strip(f"{OPEN}{CLOSE} ").lower())


def condition(text: str) -> Condition | None:
    r"""The condition of ``\{x\mid x\le5\}``, for real ``x``; None if the text is no such set."""
    found = _BUILDER.fullmatch(text)
    return Condition(found[1], found[2]) if found and is_variable(found[1]) else None


def fulfils(answer: Answer | None, name: str) -> bool:
    """Whether an answer is an interval, or a union of them, that a condition on the variable ``name`` is."""
    if not isinstance(answer, Sequence):
        return False
    if answer.kind == "union":
        return all(fulfils(item, name) for item in answer.items)
    return answer.kind[0] in "([" and answer.names == (name,)
