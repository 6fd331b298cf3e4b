r"""Numbers as people write them: ``080``, ``1{,}234``, ``3/4``, ``2\frac{1}{2}``, ``12 cm``, ``10\%``.

Only written numbers count. ``7 + 5`` and ``\sqrt{4}`` are expressions, which still have to be evaluated.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import NamedTuple

from mappa_env.grading.latex import CLOSE, GROUP, OPEN

LONGEST = 400
"""Characters of the longest number that is read."""

_DIGITS = (
    rf"(?:[1-9][0-9]{{0,2}}(?:,[0-9]{{3}})+|[0-9]{{1,3}}(?:{GROUP}[0-9]{{3}})+|"
    rf"[0-9]{{1,3}}(?: [0-9]{{3}})+|[0-9]+)"
)
_WHOLE = rf"(?P<whole>{_DIGITS})"
_PLAIN = re.compile(rf"{_WHOLE}(?:\.(?P<places>[0-9]*)(?:\\overline *\{{(?P<period>[0-9]+)\}})?)?")
_POINT = re.compile(r"\.(?P<places>[0-9]*)(?:\\overline *\{(?P<period>[0-9]+)\})?(?<=[0-9}])")
_FRACTION = re.compile(
    rf"(?:(?P<whole>[0-9]+) ?)?\\frac ?\{{ ?(?P<top>[+-]? ?{_DIGITS}) ?\}}"
    rf" ?\{{ ?(?P<bottom>[+-]? ?{_DIGITS}) ?\}}"
)
_SLASH = re.compile(rf"(?:(?P<whole>[0-9]+) )?(?P<top>{_DIGITS}) ?/ ?(?P<bottom>{_DIGITS})")
_POWER = re.compile(
    r"(?P<value>[0-9]+(?:\.[0-9]*)?)(?: ?× ?10 ?\^ ?(?:\{ ?([+-]?[0-9]{1,3}) ?\}|([0-9]))|"
    r"[eE]([+-]?[0-9]{1,3}))"
)
_LETTER = re.compile(r"\\[A-Za-z]+|[A-Za-z€£¥²³" + OPEN + "]")
_EXPONENT = re.compile(r" ?(?:\^ ?(?:\{ ?([23]) ?\}|([23]))|([²³]))$")
_WORD = re.compile(r"[A-Za-z]{3,}(?:[ .-]+[A-Za-z]+)*\.?")
_MATHS = frozenset(
    [
        "sin",
        "cos",
        "tan",
        "cot",
        "sec",
        "csc",
        "log",
        "exp",
        "max",
        "min",
        "gcd",
        "lcm",
        "mod",
        "and",
        "not",
        "sqrt",
        "sum",
        "det",
        "deg",
        "dim",
        "ker",
    ]
)
_SHORT = {
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
_LONG = {
    **{"centimeter": "cm", "centimetre": "cm", "millimeter": "mm", "kilometer": "km", "kilometre": "km"},
    **{"meter": "m", "metre": "m", "kilogram": "kg", "gram": "g", "second": "s", "sec": "s", "hour": "h"},
    **{"feet": "ft", "foot": "ft", "inche": "in", "inch": "in", "mile": "mi", "minute": "min", "pound": "lb"},
    **{"ounce": "oz", "liter": "l", "litre": "l", "degree": "", "unit": "", "€": "€", "£": "£", "¥": "¥"},
}
_PERCENT = frozenset({"percent", "percentage", "pct", "per cent", "percents"})
_WORDS = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
    "twenty",
]


class Number(NamedTuple):
    """A written number. ``reducible``: (top, bottom) of a fraction that is not in lowest terms."""

    value: Fraction
    unit: str = ""
    percent: bool = False
    reducible: tuple[int, int] | None = None

    @property
    def whole(self) -> int | None:
        """The value, if it is an integer without unit and percent sign."""
        return int(self.value) if self.value.denominator == 1 and not self.percent and not self.unit else None


def read_number(text: str) -> Number | None:
    """The number that a cleaned text is; None if it is anything else."""
    if not text or len(text) > LONGEST:
        return None
    text, unit = _unit(text)
    if unit is None:
        return None
    percent = text.endswith("%") or unit == "%"
    text = text.removesuffix("%").rstrip().removesuffix("°").rstrip(" $")
    sign, text = _sign(text.lstrip(" $"))
    text = text.lstrip(" $€£¥")
    if text.startswith("(") and text.endswith(")") and "," not in text:
        inner, text = _sign(text[1:-1].strip())
        sign *= inner
    found = _value(text)
    if found is None:
        return None
    value, reducible = found
    if reducible is not None:
        reducible = (sign * reducible[0], reducible[1])
    return Number(sign * value, "" if unit == "%" else unit, percent, reducible)


def same_number(gold: Number, answer: Number) -> bool:
    """Whether the answer is the gold, written in full: a fraction must be in lowest terms, or as in the gold.

    A unit may be missing on one side. ``10%`` is 0.1, and also 10, where a percentage is asked for.
    """
    if gold.unit and answer.unit and gold.unit != answer.unit:
        return False
    if answer.reducible is not None and answer.reducible != gold.reducible:
        return False
    if gold.percent == answer.percent:
        return gold.value == answer.value
    bare, share = (answer, gold) if gold.percent else (gold, answer)
    return bare.value == share.value / 100 or (bare.value == share.value and abs(share.value) > 1)


def _value(text: str) -> tuple[Fraction, tuple[int, int] | None] | None:
    if text.lower() in _WORDS:
        return Fraction(_WORDS.index(text.lower())), None
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
        value = Fraction(top, bottom)
        if found["whole"]:
            return (int(found["whole"]) + value, None) if 0 < value < 1 else None
        return value, None if value.denominator == abs(bottom) != 1 else (top, bottom)
    if found := _POWER.fullmatch(text):
        return Fraction(found["value"]) * Fraction(10) ** int(found[2] or found[3] or found[4]), None
    return None


def _int(text: str) -> int:
    return int(text.replace(",", "").replace(GROUP, "").replace(" ", ""))


def _sign(text: str) -> tuple[int, str]:
    if text[:1] in ("+", "-"):
        return (-1 if text[0] == "-" else 1), text[1:].lstrip()
    return 1, text


def _unit(text: str) -> tuple[str, str | None]:
    """The text without its unit, and the unit: empty if there is none, None if the end is not a unit."""
    at = next((m.start() for m in _LETTER.finditer(text) if not m[0].startswith("\\")), -1)
    if at < 1 or _value(text.lstrip("+-$ ")) is not None:
        return text, ""
    head, tail = text[:at], text[at:]
    power = ""
    if exponent := _EXPONENT.search(tail[-8:]):
        power = next(filter(None, exponent.groups()))
        power = {"²": "2", "³": "3"}.get(power, power)
        tail = tail[: len(tail) - len(exponent[0])]
    name = tail.strip()
    marked = name.startswith(OPEN) and name.endswith(CLOSE) and name.count(OPEN) == 1
    name = name[1:-1].strip().lower() if marked else name
    if name.lower() in _PERCENT:
        return head.rstrip(), "%"
    spaced = head.endswith(" ") or bool(power)
    short = name in _SHORT and (spaced or len(name) > 1)
    word = _WORD.fullmatch(name) and name.split()[0].lower() not in _MATHS and name not in _WORDS
    if not (marked or short or word or name in ("€", "£", "¥")):
        return text, None
    return head.rstrip(), _canonical(name.lower(), power)


def _canonical(name: str, power: str) -> str:
    for word, exponent in (("square ", "2"), ("sq. ", "2"), ("sq ", "2"), ("cubic ", "3")):
        if name.startswith(word):
            name, power = name.removeprefix(word).strip(), exponent
    one = name.rstrip(".").removesuffix("s")
    base = _SHORT.get(name, _LONG.get(one, one))
    return f"{base}^{power}" if base and power else base
