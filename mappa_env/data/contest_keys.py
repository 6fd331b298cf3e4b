"""One spelling of a contest problem's year, part and number, however a file writes them: 2024.0, ``i``."""

from __future__ import annotations

import re

_PARTS = {"1": "I", "2": "II"}
_WHOLE = re.compile(r"([0-9]{1,9})(?:\.0*)?")


def number_of(value: object) -> int | str:
    """A year or a problem's number: an integer if it is one, else a text in upper case."""
    text = str(value).strip()
    whole = _WHOLE.fullmatch(text)
    return int(whole[1]) if whole else text.upper()


def part_of(value: object) -> str:
    """A part of a contest: ``I``, ``II``, another text in upper case, or empty."""
    text = str(number_of(value or ""))
    return _PARTS.get(text, text)
