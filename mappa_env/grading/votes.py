"""The votes of a majority: which answers count as one.

What one answer says and another leaves open stands in marks: its unit, the variable of a relation, the letter
of a choice. ``6‹m›`` and ``6‹km›`` are two votes, and ``6`` counts with the commoner of them.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence

from mappa_env.grading.answers import wanted
from mappa_env.grading.equations import is_constant
from mappa_env.grading.expression_units import is_radian
from mappa_env.grading.latex import without_spaces
from mappa_env.grading.matching import in_order, of_each, text_of
from mappa_env.grading.naming import derived, same_name
from mappa_env.grading.numbers import Number
from mappa_env.grading.tree import Answer, Choice, Expression, Words
from mappa_env.grading.tree import Sequence as Several
from mappa_env.grading.unit_names import same_unit

_MARK = re.compile("‹([^‹›]*)›")
_DIGITS_APART = re.compile(r"(?<=[0-9]) +(?=[0-9])")
_BRACED = re.compile(r"([\^_])\{([A-Za-z0-9])\}")
_VARIABLE, _LETTER = ":", ")"
"""Ends of the marks that are no units."""


def vote_of(answer: Answer) -> str:
    """One text for the spellings of an answer, with marks.

    A fraction that is not in lowest terms has a vote of its own, as it is wrong where the other is right. So
    have large numbers in words, a letter alone, whose value only the gold says, and expressions that only
    algebra finds equal.
    """
    if isinstance(answer, Number):
        unit = _mark(answer.unit or "%" * answer.percent)
        if answer.reducible is not None:
            return "/".join(map(str, answer.reducible)) + unit
        unit = " in words" * answer.words + unit
        return f"{answer.value / (100 if answer.percent and abs(answer.value) <= 1 else 1)}{unit}"
    if isinstance(answer, Words):
        return answer.text.casefold() if len(answer.text) > 1 else answer.text
    if isinstance(answer, Choice):
        return vote_of(answer.value) + _mark(answer.letter.text + _LETTER)
    if isinstance(answer, Several):
        return _several(answer)
    found = wanted(answer.text) if isinstance(answer, Expression) else None
    if found is not None:
        return vote_of(found)
    text = _DIGITS_APART.sub("_", text_of(answer))
    text = _BRACED.sub(r"\1\2", without_spaces(text))
    if isinstance(answer, Expression) and (order := derived(answer.equation.partition("=")[0].strip())):
        text = f"{order}:{text}"  # which alone is no value
    return text + _marks(answer) if isinstance(answer, Expression) else text


def pooled(votes: Sequence[str | None]) -> list[str | None]:
    """The votes, each in the name of those that it counts with; None where there is none.

    A vote with fewer marks counts with the commonest that contradicts none of its own; of two that are as
    common, with the first.
    """
    counts = Counter(vote for vote in votes if vote is not None)
    named: dict[str, str] = {}
    groups: defaultdict[str, list[list[str]]] = defaultdict(list)
    for vote in sorted(counts, key=lambda each: (-len(_MARK.findall(each)), -counts[each])):
        mine = groups[_bare(vote)]
        fitting = [group for group in mine if all(_agree(vote, other) for other in group)]
        if not fitting:
            mine.append([])
            fitting = mine[-1:]
        commonest = max(fitting, key=lambda group: sum(counts[each] for each in group))
        commonest.append(vote)
        named[vote] = commonest[0]
    return [None if vote is None else named[vote] for vote in votes]


def _several(answer: Several) -> str:
    if answer.kind == "same":
        answer = of_each(answer)
    items = [vote_of(item) for item in in_order(answer)]
    if answer.kind == "named":
        return f"({', '.join(items)})"
    if answer.kind in ("list", "set", "union"):
        items = list(dict.fromkeys(items)) if answer.kind == "set" else items
        items.sort(key=lambda item: (_bare(item), item))
    inner = ("∪" if answer.kind == "union" else ", ").join(items)
    if answer.kind == "set" and len(items) == 1:
        return f"{{{inner}}}"  # which is not its element
    if answer.kind[0] not in "([":
        return inner
    variable = _mark(answer.names[0] + _VARIABLE) if answer.names else ""
    return f"{answer.kind[0]}{inner}{answer.kind[1]}{variable}"


def _marks(answer: Expression) -> str:
    """Degrees are no mark at a multiple of pi, which is in radians without them."""
    unit = answer.unit if answer.unit == "°" and is_radian(answer.text) else _mark(answer.unit)
    if not answer.equation or is_constant(answer):
        return unit
    return unit + _mark(answer.equation.replace("≈", "=").partition("=")[0].strip() + _VARIABLE)


def _mark(text: str) -> str:
    return f"‹{text.replace('‹', '').replace('›', '')}›" if text else ""


def _bare(vote: str) -> str:
    return _MARK.sub("", vote)


def _agree(one: str, other: str) -> bool:
    """Whether no mark of two votes, which are equal without them, contradicts one of the other."""
    ones, others = _placed(one), _placed(other)
    return all(_same(kind, ones[at, kind], others[at, kind]) for at, kind in ones.keys() & others.keys())


def _same(kind: str, one: str, other: str) -> bool:
    if kind == _VARIABLE:
        return one == other or same_name(one, other)
    return one == other if kind == _LETTER else same_unit(one, other)


def _placed(vote: str) -> dict[tuple[int, str], str]:
    """(characters before it, kind) -> what a mark says."""
    found: dict[tuple[int, str], str] = {}
    marks = 0
    for mark in _MARK.finditer(vote):
        kind = mark[1][-1:] if mark[1][-1:] in (_VARIABLE, _LETTER) else ""
        found[mark.start() - marks, kind] = mark[1].removesuffix(kind)
        marks += len(mark[0])
    return found
