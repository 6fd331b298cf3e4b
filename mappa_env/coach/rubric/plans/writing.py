r"""How people write the expression of a plan: in TeX, with ``x`` for times, with labels before it.

``37 \times 27 \div 3`` and ``37 x 27 / 3`` are one expression, and so is ``Total stamps: 37 * 27 / 3``.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from mappa_env.coach.rubric.plans.words import (
    CHECKS,
    LONE_OPERATIONS,
    OPERATIONS,
    QUANTITIES,
    RESULTS,
    any_of,
)

_MATH = re.compile(r"\\(?=[a-zA-Z(\[])")
_TEXT = re.compile(r"[ \t~]*\\(?:text|mathrm|textrm|mathit)\{[ \t]*([A-Za-z][A-Za-z ]{0,40})\}")
_ROOT = re.compile(r"\\sqrt[ \t]*\{([^{}]{1,200})\}")
_FRACTION = re.compile(r"\\[dt]?frac[ \t]*\{([^{}]{1,200})\}[ \t]*\{([^{}]{1,200})\}")
_POWER = re.compile(r"\^[ \t]*\{([^{}]{1,80})\}")
_MARKS = (
    (re.compile(r"\\(?:left|right)(?![a-z])[ \t]*(?=\\?[()\[\]lr])"), ""),
    (re.compile(r"\\lfloor(?![a-z])"), "floor("),
    (re.compile(r"\\rfloor(?![a-z])"), ")"),
    (re.compile(r"\\(?:times|cdot)(?![a-z])"), "*"),
    (re.compile(r"\\div(?![a-z])"), "/"),
    (re.compile(r"[ \t]*\\b?mod(?![a-z])[ \t]*"), " % "),
    (re.compile(r"\\(?=(?:gcd|lcm|max|min)(?![a-z]))"), ""),
    (re.compile(r"\\[()\[\],;! ]"), ""),
)
_ARROW = re.compile(r"\\(?:R|r|Longr|longr)ightarrow(?![a-z])|\\(?:implies|to)(?![a-z])")
_TIMES = re.compile(r"(?<=[0-9)])([ \t]+)[xX](?=[ \t]+[0-9(])")
_MODULO = re.compile(r"(?<=[0-9)])[ \t]+mod[ \t]+(?=[0-9(])")
_DEEPEST = 4

_LABEL = re.compile(r"([^\W\d_][^:=]{0,80}?)(?:\*\*|__)?[ \t]*:(?:\*\*|__)?[ \t*_`$]+(?=\S)")
_LEADING = re.compile(
    r"(?:(?:first|second|then|next|now|so|thus|finally|we|compute|calculate|evaluate|find|get|have|use|let)\b"
    r"[ \t,*_`$]+)+(?=[0-9(\[\-A-Za-z])",
    re.IGNORECASE,
)
_PRINTED = re.compile(r"print\(([^()\"']{1,200})\)")
_ASKS = any_of(OPERATIONS, LONE_OPERATIONS, CHECKS)
"""Words that ask to compute, or tell that a step is a check."""
_NAMES = any_of(QUANTITIES, RESULTS, "remain")
"""Words that name what an expression computes, and compute where none stands beside them."""
_OPERATOR = re.compile(r"[\w)][ \t]*[-+*/%]")


class Step(NamedTuple):
    """The expression of a step; ``changes``: words before it compute, too."""

    text: str
    changes: bool


def plainly(text: str) -> str:
    """``text`` with the operators of TeX, ``x`` and ``mod`` as those of Python; other TeX stays as it is."""
    if _MATH.search(text):
        text = "\n".join(_without_tex(line) if _MATH.search(line) else line for line in text.split("\n"))
    return _MODULO.sub(" % ", _TIMES.sub(r"\1*", text))


def _without_tex(line: str) -> str:
    line = _ARROW.sub("→", line)
    line = _TEXT.sub(lambda words: words[0] if _computes(words[1]) else " ", line)
    for _ in range(_DEEPEST):
        before = line
        line = _POWER.sub(r"**(\1)", line)
        line = _FRACTION.sub(r"((\1)/(\2))", _ROOT.sub(r"sqrt(\1)", line))
        if line == before:
            break
    for mark, python in _MARKS:
        line = mark.sub(python, line)
    return re.sub(r"\^(?=[0-9(])", "**", line)


def step_of(line: str) -> Step:
    """A step without the label, or the words that only lead to its expression."""
    label = _LABEL.match(line)
    rest = line[label.end() :] if label is not None else line
    leading = _LEADING.match(rest)
    if leading is not None:
        rest = rest[leading.end() :]
    printed = _PRINTED.fullmatch(rest)
    rest = rest if printed is None else printed[1]
    changes = label is not None and (
        _ASKS.search(label[1]) is not None
        or (_NAMES.search(label[1]) is not None and not _OPERATOR.search(rest))
    )
    return Step(rest.strip("`*_$ \t"), changes)


def may_compute(text: str) -> bool:
    """Whether a text has digits, or words that compute."""
    return re.search("[0-9]", text) is not None or _computes(text)


def _computes(words: str) -> bool:
    return _ASKS.search(words) is not None or _NAMES.search(words) is not None
