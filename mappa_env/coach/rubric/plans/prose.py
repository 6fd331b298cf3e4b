"""The formula with which a plan in prose ends, as in ``First the product, then 2 less: 3*4 - 2``.

Prose may say more than its formulas, so one counts only if it is all that the text has to say: no other
numbers, in digits or words, and no words that compute go on after it. Then whoever computes it has done what
was planned.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from mappa_env.coach.rubric.plans.words import LONE_OPERATIONS, OPERATIONS, QUANTITIES, RESULTS, any_of
from mappa_env.grading.expression import Number
from mappa_env.grading.reading import numbers_in, plain_text, value_of
from mappa_env.grading.units import WORDS

_LONGEST = 20_000
_TERM = r"[-(]{0,4}[0-9]{1,20}(?:\.[0-9]{1,20})?\){0,4}"
_SIGN = r"\s{0,4}(?:\*\*|//|[-+*/^%=])\s{0,4}"
_FORMULA = re.compile(rf"(?<![0-9A-Za-z_.]){_TERM}(?:{_SIGN}{_TERM}){{1,60}}(?![0-9A-Za-z_(])")
_BOLD = re.compile(r"(?<![\w)*])\*\*([^*\n]{1,80})\*\*(?![\w(*])")
_NUMBERED = re.compile(
    r"^[ \t>#*\-]*\(?(?:step[ \t]*)?[0-9]{1,2}[ \t]*[.):](?![0-9])", re.MULTILINE | re.IGNORECASE
)
_GOES_ON = any_of(OPERATIONS, RESULTS, "over|per|choose|factorial")
_HIDDEN = any_of(LONE_OPERATIONS, QUANTITIES)
"""Words that compute without a number beside them."""
_TEX = re.compile(r"√|\\(?:sqrt|binom|log|ln|sin|cos|tan|p?mod|gcd|lcm|sum|prod|[dt]?frac)(?![a-z])")
"""Functions around a formula that is therefore not all."""


class Formula(NamedTuple):
    """The values of both sides of the formula at the end, and those of all formulas of the text.

    ``whole``: the text says nothing else that may compute, so one without the right value is wrong.
    """

    closing: tuple[Number, ...]
    every: tuple[Number, ...]
    whole: bool = True


def formula_at_end(text: str) -> Formula | None:
    """The formula with which a plan ends; None if it has none, or says more than its formulas."""
    text = plain_text(_BOLD.sub(r"\1", _NUMBERED.sub("", text[-_LONGEST:])))
    found = list(_FORMULA.finditer(text))
    if not found:
        return None
    rest, outside = text[found[-1].end() :], _FORMULA.sub(" ; ", text)
    used = numbers_in(" ; ".join(re.sub(r"[-+*/^%=()]", " ", match[0]) for match in found))
    if (
        _TEX.search(outside)
        or _GOES_ON.search(rest)
        or _HIDDEN.search(outside)
        or not _numbers_of(outside) <= used
    ):
        return None
    sides = [_values(match[0]) for match in found]
    return Formula(sides[-1], tuple(value for each in sides for value in each)) if sides[-1] else None


def _numbers_of(text: str) -> set[Number | None]:
    """In digits or words; ``one`` is too often no number."""
    words = {word for word in re.findall(r"[a-z]+", text.casefold()) if word != "one"}
    return numbers_in(text) | {at for at, word in enumerate(WORDS) if word in words}


def _values(formula: str) -> tuple[Number, ...]:
    sides = (value_of(side) for side in formula.replace("^", "**").split("="))
    return tuple(value for value in sides if value is not None)
