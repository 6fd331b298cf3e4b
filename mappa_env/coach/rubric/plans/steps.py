"""A plan in several steps, below each other or in a row: the value of each, with the names of the others.

Of such a plan only the last step is its answer, but a check or a remark may stand last. So it is right if the
last step is, and wrong only if none of the steps has the right value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import NamedTuple

from mappa_env.coach.rubric.plans.prose import Formula
from mappa_env.coach.rubric.plans.value import is_expression, plan_value
from mappa_env.coach.rubric.plans.writing import may_compute, step_of
from mappa_env.grading.expression import Number
from mappa_env.grading.reading import value_of

_LONGEST = 20_000
_MOST = 30
_LABEL = re.compile(r"^[ \t>#*_`\-]*plan[ \t*_`]*[:=][ \t*_`]*([^\n]*)$", re.MULTILINE | re.IGNORECASE)
_NUMBER = r"(?:\*\*)?\(?(?:step[ \t]*)?[0-9]{1,2}[ \t]*[.):](?:\*\*)?[ \t]+"
_ITEM = re.compile(rf"^[ \t>#]*(?:[-*+•][ \t]+(?:{_NUMBER})?|{_NUMBER})(\S.*)$", re.IGNORECASE)
_FIRST = re.compile(r"\(?(?:step[ \t]*)?1[ \t]*[.):](?:\*\*)?[ \t]+(?=\S)", re.IGNORECASE)
_FENCE = re.compile(r"^[ \t]*```")
_EQUALS = re.compile(r"(?<![=<>!])=(?![=>])")
_NAME = re.compile(r"(?:let[ \t]+)?([A-Za-z_]\w{0,40})", re.IGNORECASE)
_WHERE = re.compile(r"[ \t,;]+(?:where|with|for)[ \t]+(?=[A-Za-z_]\w{0,40}[ \t]*=)", re.IGNORECASE)
_ROW = re.compile(
    r";[ \t]*|,[ \t]+(?:then[ \t]+|and[ \t]+|so[ \t]+)?|\.[ \t]+(?=(?i:then|next|finally|so|now|thus)\b)"
)
_ARROW = re.compile(r"[ \t]*(?:[-=]>|→|⇒|⟹)[ \t]*")
_OPEN, _CLOSE = "([{", ")]}"


class Steps(NamedTuple):
    """The steps of a plan as text, and their values; ``formula`` is None if none has one."""

    text: str
    formula: Formula | None


def steps_in(answer: str, expression_of: Callable[[str], str]) -> Steps | None:
    """The steps of the last plan in ``answer``; None if it is one expression, or none.

    ``expression_of`` finds the Python expression in a step.
    """
    answer = answer[-_LONGEST:]
    for label in reversed(list(_LABEL.finditer(answer))):
        first = label[1].strip("`*_$ \t")
        below = _below(answer[label.end() :])
        steps = _parts(first) + below if first else below
        if len(steps) < 2 or len(steps) > _MOST or not any(map(_computes(expression_of), steps)):
            continue
        if first and below and _FIRST.match(first):
            steps = [_FIRST.sub("", first, count=1), *below]
        elif first and below and _computes(expression_of)(first) and not _names_in(first) & _words(below):
            steps = _parts(first)  # what stands below it are remarks
            if len(steps) < 2:
                return None
        return Steps("; ".join(steps), _formula(steps, expression_of))
    return None


def heads_list(text: str) -> bool:
    """Whether ``text`` begins with an item, and another one follows."""
    lines = [line for line in text[:_LONGEST].split("\n") if line.strip()][:2]
    return len(lines) == 2 and all(map(_ITEM.match, lines))


def _below(text: str) -> list[str]:
    """The lines of steps that stand directly below a heading: a list, assignments or expressions."""
    found: list[str] = []
    gap = False
    for line in text.removeprefix("\n").split("\n")[: 2 * _MOST]:
        step = line.strip("`*_$ \t")
        if _FENCE.match(line) or not step:
            gap = True
            continue
        if line.startswith("# "):
            continue  # a comment of a program
        item = _ITEM.match(line)
        if item is None and gap and found:
            break
        gap = False
        step = item[1].strip("`*_$ \t") if item else step
        if item is None and not _EQUALS.search(step) and not is_expression(step):
            break
        found.append(step)
    return found


def _parts(line: str) -> list[str]:
    """The steps in one line: ``a = 2; a + 3`` or ``2 + 3 = 5, 5 * 4 = 20`` or ``a + 3 where a = 2``."""
    where = _WHERE.split(line, maxsplit=1)
    if len(where) == 2:
        return [*_parts(where[1]), where[0]]
    pieces = _ARROW.split(line)
    if any(is_expression(side) for piece in pieces[1:] for side in _EQUALS.split(step_of(piece).text)):
        return [part for piece in pieces if piece for part in _parts(piece)]
    cuts = [cut for cut in _ROW.finditer(line) if _outside(line, cut.start())]
    ends = [cut.start() for cut in cuts] + [len(line)]
    parts = [
        line[start:end].strip() for start, end in zip([0, *(cut.end() for cut in cuts)], ends, strict=True)
    ]
    parts = [part for part in parts if part]
    if any(";" not in cut[0] for cut in cuts) and not all(_EQUALS.search(part) for part in parts[:-1]):
        return [line]  # commas in words
    return parts


def _outside(line: str, at: int) -> bool:
    """Whether a place is outside of all brackets."""
    before = line[:at]
    return sum(map(before.count, _OPEN)) <= sum(map(before.count, _CLOSE))


def _computes(expression_of: Callable[[str], str]) -> Callable[[str], bool]:
    def check(step: str) -> bool:
        return any(is_expression(expression_of(side)) for side in _EQUALS.split(step_of(step).text))

    return check


def _names_in(step: str) -> set[str]:
    name = _NAME.fullmatch(_EQUALS.split(step)[0].strip())
    return {name[1]} if name is not None and _EQUALS.search(step) else set()


def _words(steps: Iterable[str]) -> set[str]:
    return {word for step in steps for word in re.findall(r"[A-Za-z_]\w*", step)}


def _formula(steps: list[str], expression_of: Callable[[str], str]) -> Formula | None:
    names: dict[str, Number] = {}
    last: tuple[Number, ...] = ()
    every: list[Number] = []
    whole = True
    for line in steps:
        step = step_of(line)
        sides = _EQUALS.split(step.text)
        last = tuple(value for side in sides if (value := _value(side, expression_of, names)) is not None)
        name = _NAME.fullmatch(sides[0].strip())
        if name is not None and len(sides) > 1 and last:
            names[name[1]] = last[-1]
        every += last
        confirmed = len(last) > len(set(last))  # it says what its expression comes to
        whole = whole and (confirmed or not step.changes if last else not may_compute(line))
    computed = tuple(
        value
        for side in _EQUALS.split(step_of(steps[-1]).text)
        if is_expression(expression_of(side.strip()))
        and (value := _value(side, expression_of, names)) is not None
    )
    if not last:  # what the last step says, nobody can tell
        return Formula((), tuple(every), whole=False) if every else None
    return Formula(computed or last, tuple(every), whole)


def _value(side: str, expression_of: Callable[[str], str], names: dict[str, Number]) -> Number | None:
    side = side.strip()
    if side in names:
        return names[side]
    found = value_of(side)
    return plan_value(expression_of(side), tuple(names.items())).number if found is None else found
