"""Small, realistic mistakes: changes to an expression or a number that always change its value."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

import numpy as np

from mappa_env.grading.expression import Number, safe_value

_OPERATORS = re.compile(r"\*\*|//|[+\-*/%]|gcd|lcm")
_MISTAKEN = {
    "**": "*",
    "//": "*",
    "/": "*",
    "*": "+",
    "+": "-",
    "-": "+",
    "%": "//",
    "gcd": "lcm",
    "lcm": "gcd",
}


def wrong_operator(expr: str, avoid: Collection[Number | None]) -> str | None:
    """Swap the first operator whose swap gives a value outside ``avoid``; None if there is no such operator.

    Deterministic on purpose: a habit must look the same every time.
    """
    for match in _OPERATORS.finditer(expr):
        changed = expr[: match.start()] + _MISTAKEN[match.group()] + expr[match.end() :]
        if _differs(changed, avoid):
            return changed
    return None


def wrong_digit(expr: str, avoid: Collection[Number | None], rng: np.random.Generator) -> str:
    """Change one random digit of an expression or number so that its value is not in ``avoid``.

    In text without a value, such as a TeX fraction, any digit may change; text without a digit gets
    one appended.
    """
    valued = safe_value(expr) is not None
    changed = [text for text in _digit_changes(expr) if not valued or _differs(text, avoid)]
    return changed[int(rng.integers(len(changed)))] if changed else f"{expr}1"


def _digit_changes(expr: str) -> Iterator[str]:
    for i, old in enumerate(expr):
        if not ("0" <= old <= "9"):
            continue
        leads = (i == 0 or not expr[i - 1].isdigit()) and expr[i + 1 : i + 2].isdigit()
        for new in "123456789" if leads else "0123456789":
            if new != old:
                yield expr[:i] + new + expr[i + 1 :]


def _differs(expr: str, avoid: Collection[Number | None]) -> bool:
    value = safe_value(expr)
    return value is not None and value not in avoid
