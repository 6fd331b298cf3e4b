"""Numbers in words: ``five``, ``forty-two``, ``one hundred and five``, ``one half``, ``two-thirds``."""

from __future__ import annotations

import re
from collections.abc import Sequence

from mappa_env.grading.units import SCALES, WORDS

LONGEST = 120
"""Characters of the longest number in words."""
_PARTS = {
    **{"half": 2, "halve": 2, "third": 3, "quarter": 4, "fourth": 4, "fifth": 5, "sixth": 6, "seventh": 7},
    **{"eighth": 8, "ninth": 9, "tenth": 10, "eleventh": 11, "twelfth": 12, "twentieth": 20},
    **{"hundredth": 100, "thousandth": 1000},
}
"""The bottoms of fractions, in the singular."""
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_LARGE = ("trillion", "billion", "million", "thousand", "hundred")
"""From the largest on: what stands before one multiplies it, and what follows is less."""
_BETWEEN = re.compile(r"[ -]+")


def spelled(text: str) -> tuple[int, int] | None:
    """Top and bottom of a number, or of up to twenty parts; None if the text is anything else.

    ``one hundred and five`` is a number. ``twenty and five``, ``one thousand, two`` and ``twenty-fifth`` may
    mean something else, so they are none.
    """
    if len(text) > LONGEST:
        return None
    words = _BETWEEN.split(text.lower())
    if words[1:] and words[0] in ("a", "an"):
        words[0] = "one"
    if (whole := _cardinal(words)) is not None:
        return whole, 1
    if len(words) != 2 or words[0] not in WORDS:
        return None
    number, bottom = WORDS.index(words[0]), _PARTS.get(words[1].removesuffix("s"))
    ordinal = words[0] in _TENS and not words[1].endswith("s")
    return (number, bottom) if bottom and not ordinal else None


def _cardinal(words: Sequence[str]) -> int | None:
    """The whole number that the words are in English, and in no other order."""
    if len(words) == 1 and words[0] in WORDS:
        return WORDS.index(words[0])
    for name in _LARGE:
        if name in words:
            at, scale = words.index(name), SCALES[name]
            top, rest = _cardinal(words[:at]), _rest(words[at + 1 :])
            most = 9 if name == "hundred" else 999
            whole = top is not None and rest is not None and 0 < top <= most and rest < scale
            return top * scale + rest if whole and top is not None and rest is not None else None
    if not words or words[0] not in _TENS or len(words) > 2:
        return None
    one = WORDS.index(words[1]) if words[1:] and words[1] in WORDS else 0
    return 10 * (_TENS.index(words[0]) + 2) + one if 0 < one < 10 or not words[1:] else None


def _rest(words: Sequence[str]) -> int | None:
    """What follows a hundred or a thousand: after ``and`` less than a hundred."""
    if not words:
        return 0
    joined = words[0] == "and"
    found = _cardinal(words[joined:])
    return found if found and (found < 100 or not joined) else None
