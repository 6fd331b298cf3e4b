r"""Complex numbers in polar form: ``2\text{cis}\frac{\pi}{3}`` is ``2e^{i\frac{\pi}{3}}``."""

from __future__ import annotations

import re

from mappa_env.grading.brackets import spans
from mappa_env.grading.latex import CLOSE, OPEN
from mappa_env.grading.tree import Expression

_POLAR = re.compile(
    r"(?P<modulus>[+-]?(?:[0-9. {}]|\\sqrt(?![A-Za-z])|\\frac(?![A-Za-z]))*) ?×? ?"
    rf"(?:{OPEN} ?cis ?{CLOSE}|\\cis(?![A-Za-z])) ?(?P<angle>[^ ].*)"
)
_DEGREES = re.compile(r"([+-]? ?[0-9]+(?:\.[0-9]+)?) ?°")
_PI = r"\\pi(?![A-Za-z])"
_RADIANS = re.compile(
    rf"[+-]? ?(?:[0-9]+(?:\.[0-9]+)?|[0-9]* ?{_PI}(?: ?/ ?[0-9]+)?|"
    rf"\\frac ?\{{ ?-?[0-9]* ?{_PI} ?\}} ?\{{ ?[0-9]+ ?\}}|"
    rf"\\frac ?\{{ ?-?[0-9]+ ?\}} ?\{{ ?[0-9]+ ?\}} ?{_PI})"
)


def polar(text: str) -> Expression | None:
    """The power of e that a cleaned text is; None if its modulus or its angle is no written number.

    An angle without a degree sign is in radians.
    """
    if not (found := _POLAR.fullmatch(text)):
        return None
    angle = found["angle"].strip()
    while angle[0] in "({" and len(angle) > 2 and spans(angle):
        angle = angle[1:-1].strip()
    if degrees := _DEGREES.fullmatch(angle):
        angle = rf"\frac{{{degrees[1]}\pi}}{{180}}"
    elif not _RADIANS.fullmatch(angle):
        return None
    return Expression(f"{found['modulus'].strip()}e^{{i({angle})}}")
