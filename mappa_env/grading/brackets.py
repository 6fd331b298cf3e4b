"""Where an answer's text may be parted: outside brackets and text commands."""

from __future__ import annotations

import itertools
import re

from mappa_env.grading.latex import CLOSE, DOLLAR, OPEN

_JOIN = re.compile(rf"{OPEN} ?,? ?(?:and|or) ?{CLOSE}|(?<![A-Za-z\\])(?:, ?)?(?:and|or)(?![a-z])")
GROUPED = re.compile(rf"[+-]?[${DOLLAR}]?[1-9][0-9]{{0,2}}(?:,[0-9]{{3}})+(?:\.[0-9]+)?%?")
"""A number whose commas part thousands."""


def cut(text: str) -> tuple[list[str], list[str]]:
    """The sides of the relations that are outside brackets, and their signs."""
    level = depths(text)
    marks = [(i, c) for i, c in enumerate(text) if c in "=≈∈<>≤≥≠" and level[i] == 0]
    cuts = [-1, *(i for i, _ in marks), len(text)]
    return [text[a + 1 : b].strip() for a, b in itertools.pairwise(cuts)], [c for _, c in marks]


def split(text: str, separator: str) -> list[str]:
    """The parts between separators that are outside brackets."""
    if separator == "or":
        places = [(m.start(), m.end()) for m in _JOIN.finditer(text)]
    elif separator == "," and GROUPED.fullmatch(text):
        return [text]
    else:
        places = [(i, i + 1) for i, c in enumerate(text) if c == separator]
    if not places:
        return [text]
    level = depths(text)
    parts, at = [], 0
    for start, end in places:
        if level[start] == 0:
            parts.append(text[at:start])
            at = end
    return [*parts, text[at:]]


def spans(text: str) -> bool:
    """Whether the last character is what closes the first one, a bracket: not so in ``(x+1)(x-1)``."""
    level = depths(text)
    closed = (i for i, (c, depth) in enumerate(zip(text, level, strict=True)) if c in ")]}" and depth == 1)
    return bool(text) and level[0] > 0 and next(closed, -1) == len(text) - 1


def depths(text: str) -> list[int]:
    """For each character, the brackets and text commands around it; each mark itself counts as inside."""
    depth, inside, found = 0, False, []
    for c in text:
        if c == OPEN:
            inside = True
        elif not inside and c in "([{":
            depth += 1
        found.append(depth + (inside and c != OPEN))
        if c == CLOSE:
            inside = False
        elif not inside and c in ")]}":
            depth = max(0, depth - 1)
    return found
