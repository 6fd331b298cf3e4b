r"""The letter of a choice beside its value: ``\text{(A) }12``, ``\text{A. 12}``, ``C: 12``, ``12 (C)``."""

from __future__ import annotations

import re

from mappa_env.grading.latex import CLOSE, OPEN

_PLAIN = re.compile(r"\(([A-Z])\)[ .:]*(?=[^] .:,;)({{\[])|([A-Z])(?:\)|[.:] (?! *[A-Z]+$)) *(?=[^] .:,;)}])")
"""Before a bracket ``(A)`` is a factor."""
_MARKED = re.compile(
    rf"{OPEN} ?(?:\(([A-Z])\)|([A-Z])[).:])[ .:]*{CLOSE}[ .:]*(?=[^] .:,;)}}])"
    rf"|{OPEN} ?(?:\(([A-Z])\)[ .:]*|([A-Z])(?:\) *|[.:] +))(?=[^] .:,;)}}{CLOSE}])"
)
_AFTER = re.compile(rf" ?(?:{OPEN} ?\(([A-Z])\) ?{CLOSE}|\(([A-Z])\) ?{CLOSE})[ .]*$")
_GOES_ON = re.compile(rf"[ {OPEN}]*(?:is|isn|are|was|and|or|nor|not|but|if)(?![A-Za-z])", re.IGNORECASE)
_ANOTHER = re.compile(r"(?<![A-Za-z])\([A-Z]\)")


def labelled(text: str) -> tuple[str, str] | None:
    """The letter and the text of the value; None if there is no letter, or no value beside it.

    A colon or a full stop after a letter needs a space, or the end of a text command: ``A:B`` is a ratio. No
    value are other letters and words about the choice: ``(A) and (C)``, ``(A) is wrong``.
    """
    found = _parted(text)
    return None if found is None or _GOES_ON.match(found[1]) or _ANOTHER.search(found[1]) else found


def _parted(text: str) -> tuple[str, str] | None:
    if found := _PLAIN.match(text) or _MARKED.match(text):
        rest = text[found.end() :]
        inside = found[0].startswith(OPEN) and CLOSE not in found[0]
        return next(filter(None, found.groups())), OPEN + rest if inside else rest
    if (found := _AFTER.search(text)) and found.start() > 0:
        rest = text[: found.start()]
        return found[1] or found[2], rest if found[1] else rest + CLOSE
    return None
