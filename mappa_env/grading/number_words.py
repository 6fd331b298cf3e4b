"""Numbers in words: ``five``, ``one half``, ``two-thirds``."""

from __future__ import annotations

import re

from mappa_env.grading.units import WORDS

LONGEST = 40
"""Characters of the longest number in words."""
_PARTS = {
    **{"half": 2, "halve": 2, "third": 3, "quarter": 4, "fourth": 4, "fifth": 5, "sixth": 6, "seventh": 7},
    **{"eighth": 8, "ninth": 9, "tenth": 10, "eleventh": 11, "twelfth": 12, "twentieth": 20},
    **{"hundredth": 100, "thousandth": 1000},
}
"""The bottoms of fractions, in the singular."""
_BETWEEN = re.compile(r"[ -]+")


def spelled(text: str) -> tuple[int, int] | None:
    """Top and bottom of a number from 0 to 20, or of so many parts; None if the text is anything else."""
    if len(text) > LONGEST:
        return None
    top, *rest = _BETWEEN.split(text.lower())
    number = 1 if rest and top in ("a", "an") else WORDS.index(top) if top in WORDS else None
    if number is None or len(rest) > 1:
        return None
    bottom = _PARTS.get(rest[0].removesuffix("s")) if rest else 1
    return (number, bottom) if bottom else None
