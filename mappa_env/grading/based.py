r"""Numbers with a base: ``2516_8``, ``2516_{\text{eight}}``, ``AB3_{12}``."""

from __future__ import annotations

import re
from fractions import Fraction

from mappa_env.grading.latex import CLOSE, OPEN
from mappa_env.grading.number_words import spelled
from mappa_env.grading.numbers import Number
from mappa_env.grading.tree import Words

TEN = 10
_NUMBER = re.compile(
    r"(\()?([0-9A-Z][0-9A-Z.]*)(?(1)\)) ?_ ?(?:\{([^{}]{1,20})\}|([0-9]|"
    rf"{OPEN}[^{OPEN}{CLOSE}]{{1,20}}{CLOSE}))"
)
_BASE = re.compile(rf"{OPEN}?(?:base)?[ -]*([0-9]{{1,2}}|[a-z]+){CLOSE}?")


def read_based(text: str) -> Words | Number | None:
    """Digits and their base, as ``2516_8``, or the number if it is ten; None if the text is anything else.

    Letters are digits up to the base. A single one is a symbol with a subscript: ``A_{12}``.
    """
    if not (found := _NUMBER.fullmatch(text)) or not (
        said := _BASE.fullmatch((found[3] or found[4]).strip())
    ):
        return None
    base = int(said[1]) if said[1].isdigit() else _spelled(said[1])
    letters = [c for c in found[2] if c.isalpha()]
    if base is None or any(int(c, 36) >= base for c in letters) or len(letters) == len(found[2]) == 1:
        return None
    if base == TEN and found[2].isdigit():
        return Number(Fraction(found[2]))
    return Words(f"{found[2]}_{base}")


def _spelled(text: str) -> int | None:
    found = spelled(text)
    return found[0] if found and found[1] == 1 else None
