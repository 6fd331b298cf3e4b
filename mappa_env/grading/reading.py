r"""The answer that a text gives: at most one, and its exact value.

``stated``: the last box, else what follows the last ``answer:`` or ``result:`` at the start of a line or the
last "the answer is". ``given``: the stated answer, else what stands in the last line with a digit: the whole
line if it is an expression, else its last bold value, else what follows its last ``=``, else its last number.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import NamedTuple

from mappa_env.grading.expression import Number, safe_value
from mappa_env.parsing import last_boxed
from mappa_env.pyast import parse_expression

_LONGEST = 20_000
"""Characters at the end of a text that are searched."""
_MOST = 50
"""Statements at the end of a text that are looked at."""
_SHOWN = 200
_LONGEST_LINE = 1000

_DIGITS = r"[0-9]{1,80}"
_NUMBER = re.compile(
    rf"(?<![0-9A-Za-z_.])[-+]?(?:(?P<whole>{_DIGITS}) )?"
    rf"(?:(?P<top>{_DIGITS})/(?P<bottom>[0-9]{{1,40}})|"
    rf"(?(whole)(?!)|(?P<decimal>(?:{_DIGITS}(?:\.[0-9]{{1,40}})?|\.[0-9]{{1,40}})(?:[eE][-+]?[0-9]{{1,2}})?)))"
    r"(?![0-9])"
)
"""``-3``, ``12.50``, ``1e3``, ``3/4``, ``2 1/2``. The bounds keep hostile digits cheap."""
_DIGIT = re.compile(r"[0-9]")
_DECIMAL = re.compile(r"(?<![0-9A-Za-z_.])([0-9]{0,40})\.([0-9]{1,40})(?![0-9A-Za-z_.])")

_SIGNS = str.maketrans({"−": "-", "–": "-", "×": "*", "·": "*", "÷": "/", "$": "", "`": "", "\u00a0": " "})
_TEX_FRACTION = re.compile(r"\\[dt]?frac\{([^{}]{1,80})\}\{([^{}]{1,80})\}")
_TEX_TEXT = re.compile(r"\\(?:text|mathrm|mathbf|textbf)\{([^{}]*)\}")
_TEX_SPACE = re.compile(r"\\[,;:! $()\[\]]|\\left(?![a-z])|\\right(?![a-z])|\^\{?\\circ\}?|\\degree")
_TEX_TIMES = re.compile(r"\\(?:times|cdot)(?![a-z])")
_PERCENT = re.compile(r"(?<=[0-9])\s*\\?%(?!\s*[0-9(a-z])")
_THOUSANDS = re.compile(r"(?<=[0-9])(?:,|\{,\})(?=[0-9]{3}(?![0-9]))")
_FRACTION = re.compile(r"(?:Fraction|Rational)\((-?[0-9]{1,80})(?:, *([0-9]{1,80}))?\)")

_LABEL = r"^[ \t>#*_`\-]*{}[ \t*_`]*[:=][ \t*_]*(\S[^\n]*)$"
_STATED = re.compile(
    _LABEL.format(r"(?:the )?(?:final |correct )?(?:answer|result)")
    + r"|\b(?:the|my|our) (?:final |correct )?answer (?:is|equals|would be)(?! not\b)[ \t]*:?[ \t]*([^\n]*)",
    re.MULTILINE | re.IGNORECASE,
)
_REMARK = re.compile(r"(?<=[^\s+\-*/%=,(])\s+\([^()]*\)")  # set off by a space, and no operand
_CLAUSE = re.compile(
    r"[;!?](?=\s)|\.(?=\s)|,(?=\s+[A-Za-z])|\s(?:because|since|where|when|for|if|with|so|but|out of)\s",
    re.IGNORECASE,
)
_HEDGE = re.compile(r"^(?:about|approximately|exactly|equal to|≈|~)\s*", re.IGNORECASE)
_GOES_ON = re.compile(r"\s*[-+*/^=]|\s+(?:times|plus|minus|divided|multiplied|more|less)\b", re.IGNORECASE)
_BOLD = re.compile(r"(?<![\w)*])\*\*([^*\n]{1,80})\*\*(?![\w(*])")
_OF_NAMES = re.compile(r"[(\s]*[A-Za-z_][\w.()]*(?:\s*(?:\*\*|//|[-+*/%])\s*[\w.()]+)+", re.ASCII)
_EDGES = "`*_$ \t\r\n"


class Reading(NamedTuple):
    """An answer: its ``text``, at most 1,000 characters, and its exact ``number`` (None: it has none)."""

    text: str
    number: Number | None


def boxed(text: str) -> Reading | None:
    r"""The last ``\boxed{}``."""
    box = last_boxed(text[-_LONGEST:])
    return None if box is None else Reading(box.strip()[:_SHOWN], number_of(box))


def stated(text: str) -> Reading | None:
    r"""The answer that a text states as such; see the module."""
    text = text[-_LONGEST:]
    return boxed(text) or _first_valued(_statements(text))


def given(text: str) -> Reading | None:
    """The answer of a text that may state none, such as a program's output; None if it is blank."""
    text = text[-_LONGEST:]
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines:
        return None
    line = next((line for line in reversed(lines) if _DIGIT.search(line)), lines[-1]).strip()[-_SHOWN:]
    return stated(text) or Reading(line, _closing_number(line))


def numbers_in(text: str) -> set[Number | None]:
    """All numbers at the end of a text."""
    return {_number(match) for match in _NUMBER.finditer(plain_text(text[-_LONGEST:]))} - {None}


def numbers_between(line: str) -> tuple[list[Number], list[str]]:
    """The numbers of a line, and the texts between them."""
    plain = plain_text(line)
    found = [(match, number) for match in _NUMBER.finditer(plain) if (number := _number(match)) is not None]
    pairs = itertools.pairwise(match for match, _ in found)
    return [number for _, number in found], [plain[one.end() : next_.start()] for one, next_ in pairs]


def labelled(text: str, label: str, value: Callable[[str], Number | None] | None = None) -> Reading | None:
    """What follows ``label:`` at the start of a line: the last with a value, else the last.

    ``value`` reads a value (default: ``number_of``).
    """
    value = value or number_of
    rows = re.findall(_LABEL.format(re.escape(label)), text[-_LONGEST:], re.MULTILINE | re.IGNORECASE)
    last = map(_bare, reversed(rows[-_MOST:]))
    return _first_valued(Reading(text[:_LONGEST_LINE], value(text)) for text in last)


def _first_valued(found: Iterable[Reading]) -> Reading | None:
    """The first reading with a value, else the first one: a heading is not an answer."""
    first: Reading | None = None
    for row in found:
        first = first or row
        if row.number is not None:
            return row
    return first


def number_of(text: str) -> Number | None:
    """The value of a stated answer: of the whole text, else of its first clause without remarks and units."""
    whole = value_of(text)
    if whole is not None:
        return whole
    plain = plain_text(text[:_SHOWN])
    if symbolic(plain) or _has_names(plain):
        return None
    bare = _REMARK.sub("", plain)
    found = _leading(_CLAUSE.split(bare, maxsplit=1)[0])
    for rest in (bare, plain):
        found = _last(rest) if found is None else found
    return found


def _has_names(plain: str) -> bool:
    """Whether a text is an expression that begins with a name, such as ``left // 7``: its numbers are none of
    its value. One that begins with a number may be a remark on it, such as ``138 - verified``.
    """
    if not _OF_NAMES.fullmatch(plain):
        return False
    try:
        nodes = list(ast.walk(parse_expression(plain)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return any(isinstance(node, ast.Name) for node in nodes)


def value_of(text: str) -> Number | None:
    """The value of a text that is a number or an expression, and nothing else but ``%`` and ``$``."""
    value = safe_value(_bare(text[: 2 * _SHOWN]))  # first, since the comma of ``lcm(105,203)`` parts two
    if value is not None:
        return value
    plain = plain_text(text[: 2 * _SHOWN])
    match = _NUMBER.fullmatch(plain)
    return _number(match) if match else safe_value(_DECIMAL.sub(_as_fraction, plain))


def _statements(text: str) -> Iterable[Reading]:
    """From the last one on."""
    for match in reversed(list(_STATED.finditer(text))[-_MOST:]):
        if match[1] is not None:
            yield Reading(_bare(match[1])[:_SHOWN], number_of(match[1]))
        else:  # in a sentence, only a value that follows at once is the answer
            plain = _REMARK.sub("", plain_text(match[2][:_SHOWN]))
            number = value_of(match[2])
            number = _leading(_CLAUSE.split(plain, maxsplit=1)[0], loose=False) if number is None else number
            if number is not None:
                yield Reading(_bare(match[2])[:_SHOWN], number)


def _leading(clause: str, *, loose: bool = True) -> Number | None:
    """The value of a clause, of what follows its last ``=``, of its first or (``loose``) last number."""
    whole = value_of(clause)
    if whole is not None:
        return whole
    tail = _HEDGE.sub("", _bare(clause.rpartition("=")[2]))
    match = _NUMBER.match(tail)
    if match and not _GOES_ON.match(tail, match.end()):
        return _number(match)
    return value_of(tail) if not loose else _last(clause)


def _closing_number(line: str) -> Number | None:
    """The value in a line of which only the end is known to matter."""
    plain = plain_text(line)
    bare = _REMARK.sub("", plain)
    bold = [value for text in _BOLD.findall(line) if (value := value_of(text)) is not None]
    for value in (value_of(line), *bold[-1:], value_of(bare.rpartition("=")[2]), _last(bare), _last(plain)):
        if value is not None:
            return value
    return None


def symbolic(text: str) -> bool:
    """Whether symbols after the last ``=`` say more than any number in it: roots, powers."""
    return any(mark in text.rpartition("=")[2] for mark in ("\\", "^", "√", "π"))


def _last(plain: str) -> Number | None:
    matches = [] if symbolic(plain) else list(_NUMBER.finditer(plain))
    return _number(matches[-1]) if matches else None


def plain_text(text: str) -> str:
    """The text in plain characters: without TeX, Markdown, currency, percent and thousands separators."""
    text = _TEX_SPACE.sub("", text) if "\\" in text else text
    text = _TEX_TIMES.sub("*", _TEX_TEXT.sub(r"\1", _TEX_FRACTION.sub(r"((\1)/(\2))", text)))
    text = _PERCENT.sub("", _THOUSANDS.sub("", text.translate(_SIGNS)))
    return _bare(_FRACTION.sub(lambda m: f"{m[1]}/{m[2] or 1}", text))


def _bare(text: str) -> str:
    """The text without the marks and full stops around it; a leading point may begin a decimal."""
    return text.rstrip(_EDGES + ".").lstrip(_EDGES)


def _number(match: re.Match[str]) -> Number | None:
    bottom = int(match["bottom"] or 1)
    if not bottom:
        return None
    value = Fraction(match["decimal"]) if match["decimal"] else Fraction(int(match["top"]), bottom)
    value += int(match["whole"] or 0)
    value = -value if match[0].startswith("-") else value
    return int(value) if value.denominator == 1 else value


def _as_fraction(match: re.Match[str]) -> str:
    return f"({int(match[1] + match[2])}/{10 ** len(match[2])})"
