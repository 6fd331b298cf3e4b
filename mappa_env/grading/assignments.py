"""Names of values that stand together: in which order they are meant, and which are of one unknown."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

from mappa_env.grading.brackets import spans, split
from mappa_env.grading.naming import is_name, is_variable

_INDEXED = re.compile(r"(\\?[A-Za-z]+) ?_ ?(?:\{ ?([0-9]{1,4}) ?\}|([0-9]))")


def names_of_tuple(text: str) -> tuple[str, ...]:
    """The names of ``(x, y)``, two or more and each once; empty if the text is anything else."""
    if not (text.startswith("(") and spans(text)):
        return ()
    names = tuple(name.strip() for name in split(text[1:-1], ","))
    return names if 1 < len(set(names)) == len(names) and all(map(is_name, names)) else ()


def assignments(text: str) -> list[tuple[str, str]]:
    """The names and the texts of values that stand together: ``x=1, y=2 and z=3``, also in brackets.

    Empty unless there are two or more, each part assigns, and no name is assigned twice.
    """
    if text.startswith("(") and text.endswith(")") and spans(text):
        text = text[1:-1]
    parts = [text]
    for separator in ("∧", ";", "or", ","):
        parts = [each for part in parts for each in split(part, separator)]
    parts = [part for part in parts if part.strip()]
    found = [each for part in parts for each in _assigned(part)]
    names = {name for name, _ in found}
    return found if len(parts) > 1 and len(found) == len(names) and "" not in names else []


def names_of_chain(sides: Sequence[str]) -> tuple[str, ...]:
    """The symbols, two or more and each once, to which ``x = y = 2`` assigns one value; else empty."""
    names = tuple(side.strip() for side in sides[:-1])
    return names if 1 < len(names) == len(set(names)) and all(map(is_variable, names)) else ()


def _assigned(part: str) -> list[tuple[str, str]]:
    sides = part.split("=")
    names = names_of_chain(sides)
    return [(name, sides[-1]) for name in names] or [(name_of(part), part.partition("=")[2])]


def name_of(part: str) -> str:
    """The symbol to which a part assigns a value; empty if it does not."""
    left, equals, _ = part.partition("=")
    left = left.strip()
    return left if equals and is_name(left) else ""


def order_of(names: Sequence[str]) -> list[int]:
    """The places of names in the order in which values without names are meant.

    Letters that follow one another in the alphabet, such as x, y and z, and numbered names have an order of
    their own. Others, such as ``(m, b)`` and ``(n, k)``, are meant as they are written.
    """
    places = sorted(range(len(names)), key=lambda n: _key(names[n]))
    keys = [_key(names[n]) for n in places]
    follow = all(a[0] == b[0] and b[1] == a[1] + 1 for a, b in itertools.pairwise(keys))
    return places if follow else list(range(len(names)))


def are_numbered(names: Sequence[str]) -> bool:
    """Whether the names are one letter with numbers, as are those of an unknown's values: ``x_1, x_2``."""
    return all(map(_INDEXED.fullmatch, names)) and len({_key(name)[0] for name in names}) == 1


def _key(name: str) -> tuple[str, int]:
    """What the name has in common with its neighbours, and its place among them."""
    if found := _INDEXED.fullmatch(name):
        return found[1], int(found[2] or found[3])
    return ("", ord(name)) if len(name) == 1 else (name, 0)
