r"""Numbers as people write them: ``080``, ``1{,}234``, ``3/4``, ``2\frac{1}{2}``, ``12 cm``, ``10\%``.

Only written numbers count. ``7 + 5``, ``\sqrt{4}`` and ``-(-12)`` are expressions, which still have to be
evaluated; ``-(12)`` has one sign, and is a number in brackets.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import NamedTuple

from mappa_env.grading.latex import CLOSE, DOLLAR, GROUP, OPEN
from mappa_env.grading.number_words import spelled
from mappa_env.grading.unit_names import KILO, MONEY, joined, same_unit
from mappa_env.grading.units import WORDS, Unit, unit_of

LONGEST = 400
"""Characters of the longest number that is read."""

_DIGITS = (
    rf"(?:[1-9][0-9]{{0,2}}(?:,[0-9]{{3}})+|[0-9]{{1,3}}(?:{GROUP}[0-9]{{3}})+|"
    rf"[0-9]{{1,3}}(?: [0-9]{{3}})+|[0-9]+)"
)
_WHOLE = rf"(?P<whole>{_DIGITS})"
_PLAIN = re.compile(
    rf"{_WHOLE}(?:\.(?P<places>[0-9]*)(?:\\(?:overline|bar|dot) *\{{(?P<period>[0-9]+)\}})?)?"
)
_POINT = re.compile(r"\.(?P<places>[0-9]*)(?:\\(?:overline|bar|dot) *\{(?P<period>[0-9]+)\})?(?<=[0-9}])")
_FRACTION = re.compile(
    rf"(?:(?P<whole>[0-9]+) ?)?\\frac ?\{{ ?(?P<top>[+-]? ?{_DIGITS}) ?\}}"
    rf" ?\{{ ?(?P<bottom>[+-]? ?{_DIGITS}) ?\}}"
)
_SLASH = re.compile(rf"(?:(?P<whole>[0-9]+) )?(?P<top>{_DIGITS}) ?/ ?(?P<bottom>{_DIGITS})")
_POWER = re.compile(
    r"(?P<value>[0-9]+(?:\.[0-9]*)?)(?: ?× ?10 ?\^ ?(?:\{ ?([+-]?[0-9]{1,3}) ?\}|([0-9]))|"
    r"[eE]([+-]?[0-9]{1,3}))"
)
_LEAD = re.compile(rf"[ $]*(?:[+-][ $€£¥{DOLLAR}]*|[€£¥{DOLLAR}][ $€£¥{DOLLAR}]*[+-]? ?)?")
_SHORT_PERIOD = re.compile(r"\\(overline|bar|dot) *([0-9])")
_DOTS = re.compile(r"\\dot *\{([0-9])\}([0-9]*)\\dot *\{([0-9])\}")
"""A period with a dot over its first and its last digit."""
_BRACKETED = re.compile(r"([0-9]+\.[0-9]*)\(([0-9]+)\)")
"""A period in brackets, ``1.(6)``."""
_GOES_ON = re.compile(r"([0-9]*)\.([0-9]+) ?(?:\.\.\.|…|\\[lc]?dots(?![A-Za-z]))")
"""A decimal with dots at its end."""
TIMES = 3
"""How often a period must be there to be taken for one."""
_SIGN = re.compile("[+-]")
_SIGNED_PART = re.compile(r"\{ ?[+-]")
_LETTER = re.compile(r"\\[A-Za-z]+|[A-Za-z€£¥²³" + OPEN + "]")
_EXPONENT = re.compile(r" ?(?:\^ ?(?:\{ ?([23]) ?\}|([23]))|([²³]))$")


_ERA = re.compile(r"[AP]M|[ap]\.m\.?|[AP]\.M\.?|BCE?|AD|CE|B\.C\.(?:E\.)?|A\.D\.|C\.E\.")
_SYMBOLS = frozenset("NJWVAK")
"""Letters that are units after a space, as m and g are."""
_DIRECTION = re.compile(r"[NSEW]|[Nn]orth|[Ss]outh|[Ee]ast|[Ww]est")


class Number(NamedTuple):
    """A written number. ``reducible``: (top, bottom) of a fraction that is not in lowest terms.

    ``words``: in words, and above twenty: another grader's tests hold that no answer for a gold in digits.
    """

    value: Fraction
    unit: str = ""
    percent: bool = False
    reducible: tuple[int, int] | None = None
    words: bool = False

    @property
    def whole(self) -> int | None:
        """The value, if it is an integer without unit and percent sign."""
        return self.angle if not self.unit else None

    @property
    def angle(self) -> int | None:
        """The value, if it is an integer without percent sign, and without unit or in degrees."""
        whole = self.value.denominator == 1 and not self.percent and self.unit in ("", "°")
        return int(self.value) if whole else None


def read_number(text: str) -> Number | None:
    """The number that a cleaned text is; None if it is anything else."""
    if not text or len(text) > LONGEST:
        return None
    text, found_unit = _unit(text)
    if found_unit is None:
        return None
    percent = text.endswith("%") or found_unit.name == "%"
    text, degrees = _without(text.removesuffix("%").rstrip(), "°")
    text, after = _without(text, f" ${DOLLAR}")
    sign, signs, before, text = _lead(text)
    unit = joined(found_unit.name, before or (MONEY[DOLLAR] if DOLLAR in after else ""), "°" * bool(degrees))
    if unit is None:
        return None
    if text.startswith("(") and text.endswith(")") and "," not in text:
        inner, inside, text = _sign(text[1:-1].strip())
        sign, signs = sign * inner, signs + inside
    if signs + _signs_of_fraction(text) > 1:  # -(-12) is still to be evaluated
        return None
    found = _value(text)
    if found is None:
        return None
    value, reducible = found
    if reducible is not None:
        reducible = (sign * reducible[0], reducible[1])
    words = text[0].isalpha() and value >= len(WORDS)
    return Number(sign * value * found_unit.scale, "" if unit == "%" else unit, percent, reducible, words)


def _lead(text: str) -> tuple[int, int, str, str]:
    """The sign before a number, how many there are, the money before or after it, and the rest."""
    found = _LEAD.match(text)
    lead = found[0] if found else ""
    money = next((MONEY[c] for c in lead if c in MONEY), "")
    return (-1 if "-" in lead else 1), len(_SIGN.findall(lead)), money, text[len(lead) :]


def _without(text: str, ends: str) -> tuple[str, str]:
    """The text without some characters at its end, and those."""
    bare = text.rstrip(ends)
    return bare.rstrip(), text[len(bare) :]


def same_number(gold: Number, answer: Number) -> bool:
    """Whether the answer is the gold, written in full: a fraction must be in lowest terms, or as in the gold.

    Words above twenty must be the gold's, too.

    A unit may be missing on one side, but not differ: ``\\$5`` is not 5 cents. ``10%`` is 0.1, and also 10,
    where a percentage is asked for.
    """
    if not same_unit(gold.unit or "%" * gold.percent, answer.unit or "%" * answer.percent):
        return False
    if answer.reducible is not None and answer.reducible != gold.reducible:
        return False
    if answer.words and not gold.words:
        return False
    if gold.percent == answer.percent:
        return gold.value == answer.value
    bare, share = (answer, gold) if gold.percent else (gold, answer)
    return bare.value == share.value / 100 or (bare.value == share.value and abs(share.value) > 1)


def _value(text: str) -> tuple[Fraction, tuple[int, int] | None] | None:
    if found := _BRACKETED.fullmatch(text):
        text = rf"{found[1]}\overline{{{found[2]}}}"
    text = _repeating(text)
    text = _DOTS.sub(r"\\dot{\1\2\3}", _SHORT_PERIOD.sub(r"\\\1{\2}", text))
    if (words := spelled(text)) is not None:
        return _fraction(*words) if words[1] > 1 else (Fraction(words[0]), None)
    if found := _PLAIN.fullmatch(text) or _POINT.fullmatch(text):
        places, period = found["places"] or "", found["period"]
        whole = _int(found.groupdict().get("whole") or "0")
        value = whole + Fraction(int(places or 0), 10 ** len(places))
        if period:
            value += Fraction(int(period), (10 ** len(period) - 1) * 10 ** len(places))
        return value, None
    if found := _FRACTION.fullmatch(text) or _SLASH.fullmatch(text):
        top, bottom = _int(found["top"]), _int(found["bottom"])
        if not bottom:
            return None
        if found["whole"]:
            value = Fraction(top, bottom)
            return (int(found["whole"]) + value, None) if 0 < value < 1 else None
        return _fraction(top, bottom)
    if found := _POWER.fullmatch(text):
        return Fraction(found["value"]) * Fraction(10) ** int(found[2] or found[3] or found[4]), None
    return None


def _repeating(text: str) -> str:
    r"""``1.666\ldots`` as ``1.\overline{6}``: with a period that is there three times.

    Other decimals with dots may go on in any way. Zeros and nines do where a number was rounded.
    """
    if not (found := _GOES_ON.fullmatch(text)):
        return text
    whole, places = found.groups()
    for size in range(1, len(places) // TIMES + 1):
        period = places[-size:]
        if places.endswith(period * TIMES):
            if period in ("0", "9"):
                return text
            while places.endswith(period):
                places = places.removesuffix(period)
            return rf"{whole}.{places}\overline{{{period}}}"
    return text


def _fraction(top: int, bottom: int) -> tuple[Fraction, tuple[int, int] | None]:
    """The value, and top and bottom if they are not in lowest terms."""
    value = Fraction(top, bottom)
    return value, None if value.denominator == abs(bottom) != 1 else (top, bottom)


def _int(text: str) -> int:
    return int(text.replace(",", "").replace(GROUP, "").replace(" ", ""))


def _sign(text: str) -> tuple[int, int, str]:
    """The sign at the start, how many there are, and the rest."""
    if text[:1] in ("+", "-"):
        return (-1 if text[0] == "-" else 1), 1, text[1:].lstrip()
    return 1, 0, text


def _signs_of_fraction(text: str) -> int:
    """Signs at the top and the bottom of a fraction."""
    return len(_SIGNED_PART.findall(text)) if r"\frac" in text else 0


def _unit(text: str) -> tuple[str, Unit | None]:
    """The text without its unit, and the unit: an empty one, or None if the end is not a unit."""
    at = next((m.start() for m in _LETTER.finditer(text) if not m[0].startswith("\\")), -1)
    if at < 1 or _value(text.lstrip(f"+-$ {DOLLAR}")) is not None:
        return text, Unit("")
    head, tail = text[:at], text[at:]
    power = ""
    if exponent := _EXPONENT.search(tail[-8:]):
        power = next(filter(None, exponent.groups()))
        power = {"²": "2", "³": "3"}.get(power, power)
        tail = tail[: len(tail) - len(exponent[0])]
    name = tail.strip()
    if head.rstrip().endswith("°") and (direction := _DIRECTION.fullmatch(name.strip(f"{OPEN}{CLOSE} "))):
        return head.rstrip(), Unit(f"°{direction[0][0].lower()}")
    marked = name.startswith(OPEN) and name.endswith(CLOSE) and name.count(OPEN) == 1
    marked = marked or (head.rstrip().endswith("°") and name in ("C", "F"))
    marked = marked or bool(_ERA.fullmatch(name))
    marked = marked or (name in _SYMBOLS and head.endswith(" "))
    if not marked and len(name) == 1 and not (head.endswith(" ") or power or name in "€£¥"):
        return text, None  # 3m is a product
    if name.startswith(f"{OPEN}{KILO}") and not name[2].isalpha() and not head.endswith(" "):
        return head, Unit(KILO)
    if marked and head.rstrip().endswith("/"):
        head, name = head.rstrip()[:-1], f"per {name.strip(OPEN + CLOSE)}"
    return head.rstrip(), unit_of(name.strip(OPEN + CLOSE), power, marked=marked)
