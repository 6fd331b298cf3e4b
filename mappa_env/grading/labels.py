r"""The letter of a choice beside its value: ``\text{(A) }12``, ``\text{A. 12}``, ``C: 12``, ``12 (C)``."""

from __future__ import annotations

import re

from mappa_env.grading.latex import CLOSE, OPEN
from mappa_env.grading.numbers import read_number
from mappa_env.grading.tree import Answer, Choice, Words, leaves

_POINT = r"[(\[][^()\[\]]*,[^()\[\]]*[)\]]"
_PLAIN = re.compile(
    rf"\(([A-Z])\)(?:[ .:]*(?=[^] .:,;)({{\[])| +(?={_POINT}$))"
    r"|([A-Z])(?:\)|[.:] (?! *[A-Z]+$)) *(?=[^] .:,;)}])"
)
"""Before a bracket ``(A)`` is a factor, unless that is a point after a space."""
_MARKED = re.compile(
    rf"{OPEN} ?(?:\(([A-Z])\)|([A-Z])[).:])[ .:]*{CLOSE}[ .:]*(?=[^] .:,;)}}])"
    rf"|{OPEN} ?(?:\(([A-Z])\)[ .:]*|([A-Z])(?:\) *|[.:] +| - (?!.{CLOSE})))(?=[^] .:,;)}}{CLOSE}])"
    rf"|{OPEN} ?([A-Z]) ?{CLOSE} ?[.:] +(?=[^] .:,;)}}])"
)
_LONE = re.compile(rf"{OPEN} ?([A-Z]) ?{CLOSE} +(?=.)")
"""A letter in a text command, which is a factor unless a number follows."""
_AFTER = re.compile(rf" ?(?:{OPEN} ?\(([A-Z])\) ?{CLOSE}|\(([A-Z])\) ?{CLOSE})[ .]*$")
_AFTER_NUMBER = re.compile(r" \(([A-Z])\)[ .]*$")
_SAID = re.compile(
    rf"({OPEN} ?)?(?:choice|option|answer)(?: ?{CLOSE} ?{OPEN}?| ) ?\(?([A-Z])(?![A-Za-z])[).:]*",
    re.IGNORECASE,
)
_INSIDE = re.compile(rf"\({OPEN} ?([A-Z]) ?{CLOSE}\)")
_GOES_ON = re.compile(rf"[ {OPEN}]*(?:is|isn|are|was|and|or|nor|not|but|if)(?![A-Za-z])", re.IGNORECASE)
_ANOTHER = re.compile(rf"(?<![A-Za-z])\([A-Z]\)|{OPEN} ?[A-Z](?:[).:] ?{CLOSE}| ?{CLOSE} ?[.:])")
_LETTERS = re.compile(r"\(?[A-HJ]\)?(?:(?:, ?| )(?:(?:and|or) )?\(?[A-HJ]\)?)*")
"""Of ten choices at most; an I is the number of a statement."""


def labelled(text: str) -> tuple[str, str] | None:
    """The letter and the text of the value; None if there is no letter, or no value beside it.

    A colon or a full stop after a letter needs a space, or the end of a text command: ``A:B`` is a ratio. No
    value are other letters and words about the choice: ``(A) and (C)``, ``(A) is wrong``.
    """
    text = _INSIDE.sub(rf"{OPEN}(\1){CLOSE}", text)
    if (said := _SAID.match(text)) and said[2].isupper():
        text = f"{said[1] or ''}({said[2]}){text[said.end() :]}"
    found = _parted(text)
    return None if found is None or _GOES_ON.match(found[1]) or _ANOTHER.search(found[1]) else found


def names_a_choice(value: Answer) -> bool:
    """Whether what stands beside a letter is, or has, the letter of a choice: ``(A) B``, ``(A) B. 12``."""
    return isinstance(value, Choice) or any(
        isinstance(leaf, Words) and _LETTERS.fullmatch(leaf.text) for leaf in leaves(value)
    )


def _parted(text: str) -> tuple[str, str] | None:
    if found := _PLAIN.match(text) or _MARKED.match(text):
        rest = text[found.end() :]
        inside = found[0].startswith(OPEN) and CLOSE not in found[0]
        return next(filter(None, found.groups())), OPEN + rest if inside else rest
    if (found := _LONE.match(text)) and read_number(text[found.end() :]) is not None:
        return found[1], text[found.end() :]
    if (found := _AFTER.search(text)) and found.start() > 0:
        rest = text[: found.start()]
        return found[1] or found[2], rest if found[1] else rest + CLOSE
    if found := _AFTER_NUMBER.search(text):
        rest = text[: found.start()]
        return (found[1], rest) if read_number(rest) is not None else None
    return None
