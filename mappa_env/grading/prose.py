r"""Texts of numbers and words: ``\text{2 h and 5 min}`` as ``2\text{ h and }5\text{ min}``."""

from __future__ import annotations

import itertools
import re

from mappa_env.grading.latex import CLOSE, OPEN
from mappa_env.grading.units import is_symbol, refused_words
from mappa_env.grading.words import is_marked

_TEXT = re.compile(r"[A-Za-z0-9 .,:;'/+-]+")
_NUMBER = re.compile(r"(?<![A-Za-z0-9.])[+-]?[0-9]+(?:[.,:/][0-9]+)*(?![A-Za-z0-9])")
_LETTER = re.compile(r"[A-Za-z]")
_PLAIN = re.compile(r"(?:(?:[A-Za-z]+[.,]?|[0-9]+(?:[.,/][0-9]+)*,?)(?: +|$))+")
_WORD = re.compile(r"[A-Za-z]+")
_VALUE = r"[0-9][0-9.]*(?: ?\\frac\{[0-9]+\}\{[0-9]+\})?"
_FEET = re.compile(rf"(?=[^ ])(?:({_VALUE}) ?')? ?(?:({_VALUE}) ?(?:''|\"))?")


def parted(text: str) -> str | None:
    """A cleaned text with each run of words in a text command and its numbers outside; None if it has none.

    Without a text command there must be words, each of three letters or the symbol of a unit, that say
    nothing of numbers: ``June 20``, ``5 ft 4 in``; not ``x 2`` and ``sin 20``.
    """
    inner = text[1:-1] if is_marked(text) else text
    if not _TEXT.fullmatch(inner) or (inner == text and not _is_plain(text)):
        return None
    words, numbers = _NUMBER.split(inner), _NUMBER.findall(inner)
    if not numbers or any(c.isdigit() for run in words for c in run):
        return None
    runs = [f"{OPEN}{run}{CLOSE}" if _LETTER.search(run) else run for run in words]
    return "".join(itertools.chain(*itertools.zip_longest(runs, numbers, fillvalue="")))


def measured(text: str) -> str | None:
    """``5'4''`` as feet and inches; None for any other text. A prime after a letter belongs to a name."""
    if not (found := _FEET.fullmatch(text)):
        return None
    feet, inches = found.groups()
    return "".join(
        f"{value}{OPEN}{unit}{CLOSE}" for value, unit in ((feet, "ft"), (inches, "in")) if value is not None
    )


def _is_plain(text: str) -> bool:
    return (
        _PLAIN.fullmatch(text) is not None
        and _LETTER.search(text) is not None
        and all(len(word) > 2 or is_symbol(word) for word in _WORD.findall(text))
        and refused_words(text) <= {"and"}
    )
