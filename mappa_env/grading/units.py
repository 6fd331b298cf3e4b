"""Units after a number: symbols and words, and which words are none: they say what the number is."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from importlib import resources
from typing import NamedTuple

import yaml

from mappa_env.grading.latex import CLOSE, DOLLAR, OPEN, UNIT_LETTERS

_SYMBOLS = {
    **{"cm": "cm", "mm": "mm", "km": "km", "m": "m", "kg": "kg", "g": "g", "mg": "mg", "s": "s", "ft": "ft"},
    **{
        "in": "in",
        "mi": "mi",
        "lb": "lb",
        "oz": "oz",
        "hr": "h",
        "h": "h",
        "l": "l",
        "ml": "ml",
        "mph": "mph",
    },
}
"""Those that may follow a number without a text command."""
_LISTS: Mapping[str, list[str]] = yaml.safe_load(
    resources.files(__package__).joinpath("units.yaml").read_text(encoding="utf-8")
)
_PAIRS = frozenset([*_LISTS["short_units"], *_SYMBOLS])
_SMALL = frozenset({"a", "an", "of", "in", "to", "on", "at", "by"})
"""Words that a unit may have, such as "students in a row", and never is."""
_LONG = {
    **{"centimeter": "cm", "centimetre": "cm", "millimeter": "mm", "kilometer": "km", "kilometre": "km"},
    **{"meter": "m", "metre": "m", "kilogram": "kg", "gram": "g", "second": "s", "sec": "s", "hour": "h"},
    **{"feet": "ft", "foot": "ft", "inche": "in", "inch": "in", "mile": "mi", "minute": "min", "pound": "lb"},
    **{"ounce": "oz", "liter": "l", "litre": "l", "degree": "°", "deg": "°", "unit": ""},
    **{"dollar": "$", "buck": "$", "usd": "$", "cent": "cent", "penny": "cent", "pennie": "cent"},
    **{"euro": "€", "eur": "€", "gbp": "£", "quid": "£", "pound sterling": "£", "yen": "¥", "yuan": "¥"},
    **{"radian": "rad", "degree celsiu": "°c", "celsiu": "°c", "degree c": "°c", "c": "°c", "degree f": "°f"},
    **{"degree fahrenheit": "°f", "fahrenheit": "°f", "f": "°f", "kelvin": "k", "lbs": "lb"},
}
MONEY = {DOLLAR: "$", "€": "€", "£": "£", "¥": "¥"}
"""Signs of money that stand before a number, and the units that they are."""
_ALIKE = (("£", "lb"), ("°", "°c"), ("°", "°f"))
"""Units that one word or sign may mean."""
_MONEY_WORDS = frozenset([*MONEY.values(), "cent"])
_PERCENT = frozenset({"percent", "percentage", "pct", "per cent", "percents"})
SCALES = {
    "dozen": 12,
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
_DENIES = frozenset([*_LISTS["negation"], *_LISTS["connective"], *_LISTS["function"]])
_UNIT = re.compile(r"[A-Za-z€£¥][A-Za-z€£¥.'/ -]*(?:\^?[23²³])?")
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
    name = text.strip()
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
    return Unit(_canonical(name.lower(), power), scale)


def same_unit(one: str, other: str) -> bool:
    """Whether two units do not contradict each other. One may be missing, and money may be per something."""
    if not one or not other or one == other or (one, other) in _ALIKE or (other, one) in _ALIKE:
        return True
    return any(
        sign in MONEY.values() and unit.startswith((f"{sign} ", f"{sign}/"))
        for sign, unit in ((one, other), (other, one))
    )


def joined(unit: str, money: str, degrees: str) -> str | None:
    """One unit of the words after a number and the signs at it; None if they contradict each other."""
    if degrees and unit in ("", "°c", "°f"):
        return unit or degrees
    if not money:
        return unit if not degrees else None
    if unit in ("", money):
        return money
    if unit.startswith((f"{money} ", f"{money}/")):
        return unit
    if unit in _MONEY_WORDS or unit == "%":
        return None
    return f"{money} {unit}"


def refused_words(text: str) -> set[str]:
    """The words of a text that are never part of a unit."""
    words = [word.lower() for word in _WORD.findall(text)]
    if len(words) == 1 and words[0] in _PAIRS:  # 5 sec, 5 min
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


def said(text: str) -> tuple[frozenset[str], frozenset[str]]:
    """(words that are no part of a unit, those of them that multiply) in the text command at the end."""
    end = text[text.rfind(OPEN) + 1 : -1] if text.endswith(CLOSE) else ""
    found = frozenset(refused_words(end))
    return found, frozenset(word for word in found if _scale(word))


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


def _canonical(name: str, power: str) -> str:
    for word, exponent in (("square ", "2"), ("sq. ", "2"), ("sq ", "2"), ("cubic ", "3")):
        if name.startswith(word):
            name, power = name.removeprefix(word).strip(), exponent
    for word, exponent in (
        (" squared", "2"),
        (" cubed", "3"),
        ("²", "2"),
        ("³", "3"),
        ("^2", "2"),
        ("^3", "3"),
    ):
        if name.endswith(word):
            name, power = name.removesuffix(word).strip(), exponent
    first, *rest = name.split(maxsplit=1)
    if rest and (money := _LONG.get(first.removesuffix("s"), "")) in MONEY.values():
        return f"{money} {rest[0]}"  # dollars per hour
    one = name.rstrip(".").removesuffix("s").removeprefix("us ").replace("degrees ", "degree ")
    base = _SYMBOLS.get(name, _LONG.get(one, one))
    return f"{base}^{power}" if base and power else base
