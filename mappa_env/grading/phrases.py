"""Texts that are values with words or colons between them: ``3:15``, ``5 to 4``, ``2 R 3``, ``5 ft 4 in``."""

from __future__ import annotations

import re
from typing import NamedTuple

from mappa_env.grading.brackets import cut, depths
from mappa_env.grading.expression_units import is_complete
from mappa_env.grading.latex import CLOSE, OPEN
from mappa_env.grading.units import unit_of

_REMAINDER = re.compile(r"([0-9]+) ?R ?([0-9]+)")
_SAME = {":": ":", "to": ":", "r": "remainder", "rem": "remainder"}
"""Words for which there is another one, or a sign."""


class Part(NamedTuple):
    """``said``: it is words, or a colon, rather than a value."""

    text: str
    said: bool


def parts_of_phrase(text: str) -> list[Part]:
    """The values and the words between them, in order; a single part if it is no phrase.

    A unit stays with its value. A variable in a text command, the name of a function and an equation, whose
    left side may be words, are no phrase.
    """
    if found := _REMAINDER.fullmatch(text):
        return [Part(found[1], False), Part("remainder", True), Part(found[2], False)]
    if (OPEN not in text and ":" not in text) or len(cut(text)[0]) > 1:
        return [Part(text, False)]
    parts: list[Part] = []
    at = 0
    for start, end in _places(text):
        before, after = text[at:start].strip(), text[end:]
        unit = text[start:end].strip(f"{OPEN}{CLOSE} ,;").removesuffix(" and")
        said = unit.lower()
        if said not in _SAME and is_complete(before) and unit_of(unit, marked=True):
            if _goes_on(after):
                parts.append(Part(f"{before}{OPEN}{unit}{CLOSE}", False))
                at = end
        elif said in _SAME or (not _is_symbol(said, after) and (not before or is_complete(before))):
            parts += [Part(before, False)] if before else []
            parts += [Part(_SAME.get(said, said), True)] if said else []
            at = end
    rest = text[at:].strip()
    return [*parts, Part(rest, False)] if rest else parts


def _places(text: str) -> list[tuple[int, int]]:
    """Where text commands and colons begin and end that are outside brackets."""
    level = depths(text)
    found: list[tuple[int, int]] = []
    for at, c in enumerate(text):
        if c == ":" and level[at] == 0:
            found.append((at, at + 1))
        elif c == OPEN and level[at] == 0:
            found.append((at, text.find(CLOSE, at) + 1 or len(text)))
    return found


def _is_symbol(said: str, after: str) -> bool:
    """Whether a text is a variable, a function, or has a subscript."""
    return len(said) == 1 or after.lstrip()[:1] in ("(", "_", "^", "{", "[")


def _goes_on(after: str) -> bool:
    """Whether another value follows a unit."""
    return after.strip()[:1].isdigit() or after.strip().startswith("\\")
