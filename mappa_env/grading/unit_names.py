"""One name for each unit, however it is spelled: ``m/s`` for "meters per second", ``apple`` for "apples"."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib import resources
from typing import Any

import yaml

from mappa_env.grading.latex import DOLLAR

MONEY = {DOLLAR: "$", "€": "€", "£": "£", "¥": "¥"}
"""Signs of money that stand before a number, and the units that they are."""
_LISTS: Mapping[str, Any] = yaml.safe_load(
    resources.files(__package__).joinpath("unit_names.yaml").read_text(encoding="utf-8")
)
_MEASURES: Mapping[str, str] = {
    word: symbol for symbol, words in _LISTS["measures"].items() for word in [symbol, *words]
}
_PLURALS: Mapping[str, str] = _LISTS["plurals"]
_RATES: Mapping[str, str] = _LISTS["rates"]
_TRAILING = frozenset(_LISTS["trailing"])
_PREPOSITIONS = frozenset(_LISTS["prepositions"])
_MONEY_NAMES = frozenset([*MONEY.values(), "cent", "₹"])
KILO = "K"
"""A K right after a number: kelvins, or thousands. So it may not be missing."""
_ALIKE = (("£", "lb"), ("pint", "point"), (KILO, "k"))
"""Units that one word or sign may mean."""
_BEFORE = {"square": "2", "sq": "2", "cubic": "3", "cu": "3"}
_AFTER = re.compile(r" (squared|cubed)$|\^? ?\{? ?([23]) ?\}?$|([²³])$")
_EXPONENTS = {"squared": "2", "cubed": "3", "²": "2", "³": "3"}
_PER = re.compile(r" ?/ ?| ?\bper | ?\ban? (?=(?:second|minute|hour|day|week|month|year)$)")
_HISSES = re.compile(r"(?:[sxzo]|ch|sh)e$")


def unit_name(name: str, power: str = "") -> str:
    """The one name of a unit in words or symbols, with the ``power`` that stands after it; empty for none."""
    name = " ".join(name.lower().replace(".", "").replace("-", " ").split())
    top, *bottoms = _PER.split(name)
    rates = [_power(bottom, power if n == len(bottoms) - 1 else "") for n, bottom in enumerate(bottoms)]
    first = _power(top, "" if bottoms else power)
    if len(rates) > 1 and len(set(rates)) == 1:  # per second per second
        rates = [f"{rates[0]}^{len(rates)}"]
    return "/".join([first, *rates])


def same_unit(one: str, other: str) -> bool:
    """Whether two units do not contradict each other. One may be missing, or say more: "red balls"."""
    if one == other or (one, other) in _ALIKE or (other, one) in _ALIKE:
        return True
    if KILO in (one, other):
        return False
    if not one or not other:
        return True
    short, long = sorted((one, other), key=len)
    if short in MONEY.values() and long.startswith((f"{short} ", f"{short}/")):
        return True
    if short.startswith("/"):  # per hour
        return long.endswith(short)
    if short[0] == long[0] == "°":
        return short == "°"
    ones, others = one.split(), other.split()
    return ones[-1] == others[-1] and (set(ones) <= set(others) or set(others) <= set(ones))


def joined(unit: str, money: str, degrees: str) -> str | None:
    """One unit of the words after a number and the signs at it; None if they contradict each other."""
    if degrees and (unit in ("", "°c", "°f") or unit.startswith("°")):
        return unit or degrees
    if not money:
        return unit if not degrees else None
    if unit in ("", money):
        return money
    if unit.startswith((f"{money} ", f"{money}/")):
        return unit
    if unit in _MONEY_NAMES or unit in ("%", KILO):
        return None
    return money + unit if unit.startswith("/") else f"{money} {unit}"


def is_measure(name: str) -> bool:
    """Whether it names measures, such as "cm" or "miles per hour", and nothing that is counted."""
    return all(part.partition("^")[0] in _MEASURES.values() for part in unit_name(name).split("/"))


def _power(name: str, power: str) -> str:
    first, _, rest = name.partition(" ")
    if rest and first in _BEFORE:
        name, power = rest, _BEFORE[first]
    if found := _AFTER.search(name):
        name, power = name[: found.start()], _EXPONENTS.get(found[0].strip(), found[2])
    base = _phrase(name)
    return f"{base}^{power}" if base and power else base


def _phrase(name: str) -> str:
    """The noun at the end and, in order, the words before it: "red ball" for "red balls in a bag"."""
    name = name.removeprefix("us ").replace("degrees ", "degree ").replace("pounds ", "pound ")
    if name in _MEASURES:
        return _MEASURES[name]
    if name in ("unit", "units", "in total", "in all"):
        return ""
    kept = [word for word in name.split() if word not in _TRAILING]
    cut = next((n for n, word in enumerate(kept) if n and word in _PREPOSITIONS), len(kept))
    nouns = [_one(word) for word in kept[:cut]]
    if len(nouns) == 1:
        return _RATES.get(nouns[0], nouns[0])
    if nouns and nouns[-1] in _MEASURES.values():  # a nautical mile is no mile
        return "-".join(nouns)
    return " ".join([*sorted(nouns[:-1]), *nouns[-1:]])


def _without_s(word: str) -> str:
    plural = word.endswith("s") and not word.endswith(("ss", "us", "is")) and len(word) > 2
    return word[:-1] if plural else word


def _one(word: str) -> str:
    """The symbol of a measure, or what is left of a noun in the singular and in the plural."""
    if word in _PLURALS:
        word = _PLURALS[word]
    elif word.endswith("men"):
        word = f"{word[:-2]}an"
    if word in _MEASURES:
        return _MEASURES[word]
    word = _without_s(word)
    if word in _MEASURES:
        return _MEASURES[word]
    if len(word) < 4:
        return word
    if _HISSES.search(word):  # what is left of "lenses" ends as "lens" does
        word = _without_s(word[:-1])
    elif word.endswith("ie"):
        word = f"{word[:-2]}y"
    elif word.endswith(("ve", "fe")):
        word = f"{word[:-2]}f"
    if word.endswith("zz"):  # quizzes
        word = word[:-1]
    return _MEASURES.get(word, word)
