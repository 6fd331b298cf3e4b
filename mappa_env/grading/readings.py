"""The few values that a program's output may give as its result, beside words and other numbers.

``Total 42 after 7 steps`` may mean 42 or 7, and nobody can tell by its form. A list of numbers means its last
one, and so do lines that differ in their numbers only: to print many values is no answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from mappa_env.grading.reading import Reading, given, number_of, numbers_between, stated, value_of

MOST = 3
"""Values that a text may mean."""
_LONGEST, _LONGEST_LINE = 20_000, 200
_DIGIT = re.compile(r"[0-9]")
_WORD = re.compile(r"[^\W\d_]+")
_LISTS = frozenset(("or", "and", "to", "x", "e"))
"""Words between the parts of a list or of one value."""
_GROUP = re.compile(r"[(\[][^()\[\]]{1,80},[^()\[\]]{1,80}[)\]]")
"""A point, an interval or a list."""
_REMARK = re.compile(r"(?<=\S)\s+[(\[][^()\[\]]*[)\]]")
_LABELLED = re.compile(r"[:=]\s*\S+\W*$")


def readings(text: str) -> list[Reading]:
    """What a text may mean, the likeliest first: ``given``. One alone if it states an answer as such."""
    first = given(text)
    if first is None:
        return []
    said = stated(text[-_LONGEST:])
    lines = _lines(text[-_LONGEST:]) if said is None or said.number is None else [said.text]
    found = {_key(first): first}
    for line in lines:
        for each in _of_line(line):
            if len(found) < MOST:
                found.setdefault(_key(each), each)
    return list(found.values())


def _key(reading: Reading) -> object:
    return reading.text if reading.number is None else reading.number


def _lines(text: str) -> list[str]:
    """The last line of each wording that has a digit: values first, then labelled ones, then the others."""
    last: dict[tuple[str, ...], str] = {}
    for line in map(str.strip, text.splitlines()):
        if _DIGIT.search(line) and len(line) <= _LONGEST_LINE:
            words = tuple(_WORD.findall(line.casefold())) or (str(len(numbers_between(line)[0]) > 1),)
            last.pop(words, None)  # the order is that of the last lines
            last[words] = line
    return sorted([*reversed(last.values())][: 2 * MOST], key=_rank)


def _rank(line: str) -> int:
    return 0 if value_of(line) is not None else 1 if _LABELLED.search(line) else 2


def _of_line(line: str) -> Iterator[Reading]:
    """Points, the value after a label, and numbers that words set apart from each other, no remarks."""
    for group in _GROUP.findall(line):
        yield Reading(group, None)
    for sign in "=:":
        tail = line.rpartition(sign)[2].strip()
        if tail != line and _DIGIT.search(tail) and not _GROUP.search(tail):
            yield Reading(tail, number_of(tail))
    numbers, between = numbers_between(_REMARK.sub("", line))
    if len(numbers) > MOST:
        return
    apart = [bool({*_WORD.findall(gap.casefold())} - _LISTS) for gap in between]
    for at, number in enumerate(numbers):
        if all(apart[max(0, at - 1) : at + 1]):
            yield Reading(line, number)
