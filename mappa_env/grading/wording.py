r"""Words of text commands that say what signs say, or nothing: ``\text{negative }5``, ``\text{Answer: }12``.

Texts are in cleaned spelling, ``⟦...⟧``.
"""

from __future__ import annotations

import re

from mappa_env.grading.brackets import spans
from mappa_env.grading.latex import CLOSE, OPEN
from mappa_env.grading.numbers import read_number
from mappa_env.grading.units import refused_words

_MINUS = re.compile(rf"{OPEN} ?(?:negative|minus) ?{CLOSE} ?", re.IGNORECASE)
_MINUS_INSIDE = re.compile(rf"{OPEN} ?(?:negative|minus) ([A-Za-z0-9., -]+){CLOSE}$", re.IGNORECASE)
_FUNCTION = re.compile(
    rf"{OPEN} ?((?:arc)?(?:sin|cos|tan)h?|cot|csc|log|ln|exp|gcd|lcm) ?{CLOSE}(?= ?[({{\\_^A-Za-z])"
)
_RATE = re.compile(rf"{CLOSE} ?/ ?{OPEN}")
_SAID = rf"\{{ ?{OPEN}([^{OPEN}{CLOSE}]*){CLOSE}"
_FRACTION = re.compile(rf"\\frac ?{_SAID} ?\}} ?{_SAID}([^{{}}]{{0,3}})\}}")
_STATES = re.compile(r"(?:[A-Za-z' -]*[A-Za-z])?(?:(?<=[A-Za-z]) ?:|(?:^| )(?:is|are|equals)(?: ?:)?) *")
_CHOICE = re.compile(r" ?(?:(?i:choice|option|answer) )?[A-Z] ?: ?")
_ANSWER = re.compile(r" ?(?:the )?(?:(?:final|correct) )?answer(?: is ?:?| ?:) ?", re.IGNORECASE)


_REMARK = re.compile(
    rf" ?{OPEN}? ?\( ?{OPEN}? ?(?:since|because|as|minimum|maximum|min|max|exactly|simplified|"
    r"final answer)(?![A-Za-z])"
)
"""How a remark on the value before it begins."""
_OR = re.compile(r"(?<![A-Za-z])or(?![A-Za-z])")


def plain(text: str) -> str:
    """A cleaned text with signs in place of such words, and without a label or a remark at the answer."""
    text = _without_remark(text)
    text = _FRACTION.sub(rf"{OPEN}\1/\2{CLOSE}\3", _RATE.sub("/", text))
    text = _unlabelled(_FUNCTION.sub(r"\\\1 ", text))
    if found := _MINUS.match(text):
        return f"-{text[found.end() :]}"
    if (found := _MINUS_INSIDE.match(text)) and (read_number(found[1].strip()) is not None):
        return f"-{found[1].strip()}"
    return text


def _without_remark(text: str) -> str:
    """Without ``\\text{ (minimum)}`` and ``\\text{ (since }n>0\\text{)}`` at the end."""
    found = _REMARK.search(text)
    if not found or not found.start() or _OR.search(text, found.start()):
        return text
    said = text[found.start() :].replace(OPEN, "").replace(CLOSE, "").strip()
    value = text[: found.start()]
    value += CLOSE * (value.count(OPEN) - value.count(CLOSE))  # 25 and its remark in one text command
    return value if spans(said) else text


def _unlabelled(text: str) -> str:
    if not text.startswith(OPEN) or CLOSE not in text:
        return text
    label, rest = text[1:].split(CLOSE, 1)
    if not rest.strip(" $"):
        found = _ANSWER.match(label)
        return f"{OPEN}{label[found.end() :]}{CLOSE}" if found else text
    if rest.lstrip().startswith(":"):
        label, rest = f"{label.rstrip()}:", rest.lstrip(" :")
    if not _STATES.fullmatch(label.strip()) or _CHOICE.fullmatch(label):
        return text
    said = re.sub(r"\b(?:is|are|equals)\b|:", " ", label)
    return text if refused_words(said) else rest.strip()
