"""Units after a number: symbols and words, and which words are none: they say what the number is."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from importlib import resources
from typing import NamedTuple

import yaml

from mappa_env.grading.latex import UNIT_LETTERS
from mappa_env.grading.unit_names import unit_name

_SYMBOLS = frozenset(
    ["cm", "mm", "km", "m", "kg", "g", "mg", "s", "ft", "in", "mi", "lb", "oz", "hr", "h", "l", "ml", "mph"]
)
"""Those that may follow a number without a text command."""
_LISTS: Mapping[str, list[str]] = yaml.safe_load(
    resources.files(__package__).joinpath("units.yaml").read_text(encoding="utf-8")
)
_PAIRS = frozenset([*_LISTS["short_units"], *_SYMBOLS])
_SMALL = frozenset({"a", "an", "of", "in", "to", "on", "at", "by"})
"""Words that a unit may have, such as "students in a row", and never is."""
_PERCENT = frozenset({"percent", "percentage", "pct", "per cent", "percents"})
SCALES = {
    "dozen": 12,
    "doz": 12,
    "score": 20,
    "gross": 144,
    "lakh": 10**5,
    "lac": 10**5,
    "crore": 10**7,
    "hundred": 100,
    "thousand": 10**3,
    "million": 10**6,
    "billion": 10**9,
    "trillion": 10**12,
    "quadrillion": 10**15,
    "quintillion": 10**18,
}
"""Words that multiply the number before them."""
WORDS = _LISTS["zero_to_twenty"]
"""The words of the numbers from 0."""
_NOWHERE = ("zero_to_twenty", "number", "comparison", "negation", "aside", "connective", "mathematics")
_NO_UNIT = frozenset([*SCALES, *(word for name in _NOWHERE for word in _LISTS[name])])
"""Words of number, comparison, negation, connection and mathematics."""
_ON_NUMBERS = frozenset(
    [*_LISTS["operation"], *_LISTS["notation"], *_LISTS["qualifier"], "square", "cube", "cubic"]
)
"""Words that say what becomes of a number, unless a noun follows: "inverse", but "inverse functions"."""
_FIRST = frozenset(_LISTS["multiple"])
_ORDINAL = re.compile(
    r"(?:[a-z]+-)?(?:half|halves|third|fourth|fifth|sixth|seventh|eighth|ninth|tenth|eleventh|twelfth|"
    r"[a-z]{3,8}teenth|[a-z]{3,6}tieth|hundredth|thousandth|[a-z]{1,12}illionth)s?|[a-z]{2,16}fold|"
    r"[a-z]{1,12}illions?"
)
"""Fractions, and multiples with any number word: "twentieths", "tenfold", "octillion"."""
_DENIES = frozenset(["no", "or", *_LISTS["negation"], *_LISTS["connective"], *_LISTS["function"]])
_COMPOUND = re.compile(r"-[A-Za-z]{3}")
"""The end of a word that begins with a number: ``8-day``."""
_UNIT = re.compile(r"[A-Za-z€£¥][A-Za-z€£¥.'/ -]*(?:\^ ?\{? ?[23] ?\}?|(?<=[A-Za-z])[23²³])?")
_WORD = re.compile(r"[A-Za-z€£¥]+")
_COMMANDS = re.compile(r"\\[A-Za-z]+")
_JOINS = frozenset([*_LISTS["connective"], *_LISTS["negation"], "and", "or", "if"])


class Unit(NamedTuple):
    """``name``: ``cm``, ``cm^2``, ``%`` or empty. ``scale``: what the number is multiplied by."""

    name: str
    scale: int = 1


def unit_of(text: str, power: str = "", *, marked: bool) -> Unit | None:
    """The unit that words after a number are, with the ``power`` after them; None if they are none.

    ``marked``: they stand in a text command, where symbols in capitals and short words are no variables.
    """
    name = text.replace(".", "").strip()
    if marked and _COMPOUND.match(name):
        name = name[1:]
    if name.lower() in _PERCENT:
        return Unit("%")
    scale = 1
    while (first := name.split(maxsplit=1)) and (factor := _scale(first[0])):
        scale *= factor
        name = "".join(first[1:])
    if not name:
        return Unit("", scale) if not power else None
    if not _UNIT.fullmatch(name) or (refused_words(name) and not _squared(name)):
        return None
    words = _WORD.findall(name)
    if not marked and name not in _SYMBOLS and not (len(name) > 2 or name in ("€", "£", "¥")):
        return None
    if words[-1:] and words[-1] in _SMALL - {"in"}:
        return None
    if any(len(word) < 3 and not _short(word) for word in words) or set(words) <= _SMALL - set(_SYMBOLS):
        return None
    return Unit(unit_name(name, power), scale)


def is_symbol(word: str) -> bool:
    """Whether it is the symbol of a unit, or a short one, that needs no text command: ``cm``, ``hr``."""
    return word in _SYMBOLS or word.lower() in _PAIRS


def refused_words(text: str) -> set[str]:
    """The words of a text that are never part of a unit."""
    words = [word.lower() for word in _WORD.findall(text)]
    if len(words) == 1 and words[0] in _PAIRS:  # 5 sec, 5 min
        return set()
    if words in (["square", "in"], ["cubic", "in"]):
        return set()
    found = {word for word in words if (word in _NO_UNIT and word not in _PAIRS) or _ORDINAL.fullmatch(word)}
    found.update(
        word
        for word, after in itertools.zip_longest(words, words[1:], fillvalue="")
        if word in _ON_NUMBERS and (not after or after in _SMALL)
    )
    return found | (set(words[:1]) & _FIRST)


def denials(text: str) -> bool:
    """Whether words of a text deny it, or name a function of what follows: "not x", "half of x"."""
    return any(word.lower() in _DENIES for word in _WORD.findall(_COMMANDS.sub(" ", text)))


def joins(text: str) -> bool:
    """Whether words of a text begin another statement: "so", "then"."""
    return any(word.lower() in _JOINS for word in _WORD.findall(_COMMANDS.sub(" ", text)))


def _squared(name: str) -> bool:
    """``cm squared``: a power of the unit before it."""
    unit, _, power = name.rpartition(" ")
    return power in ("squared", "cubed") and bool(unit) and not refused_words(unit)


def _scale(word: str) -> int:
    if word.lower() == "scores":  # of games, more often than of years
        return 0
    return SCALES.get(word.lower(), SCALES.get(word.lower().removesuffix("s"), 0))


def _short(word: str) -> bool:
    return word in UNIT_LETTERS or (len(word) == 2 and word.lower() in _PAIRS) or word.lower() in _SMALL
