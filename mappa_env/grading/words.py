"""Answers in words: texts, and the letters of choices."""

from __future__ import annotations

import re

from mappa_env.grading.brackets import split
from mappa_env.grading.latex import CLOSE, GROUP, OPEN
from mappa_env.grading.tree import Words

_LETTER = re.compile(r"(?:(?:choice|option|answer) )?\(?([A-Z])\)?\.?", re.IGNORECASE)
_PROSE = re.compile(rf"[A-Za-z{OPEN}{CLOSE} ,.;:!?'\"-]+")
_PLAIN_WORDS = re.compile(r"[A-Za-z]+(?:[ ,.'-]+[A-Za-z]+)*[.!]?")
_SHORT = frozenset(["no", "on", "up", "go", "do", "ok", "so"])
"""Words that are answers, rather than products of two variables; in capitals they are segments."""
_MARKS = re.compile(r"[TF]{2}|[YN]{2}|[HT]{2}")
"""True or false, yes or no, heads or tails."""
_LONG_WORD = re.compile(r"[A-Za-z]{3}")


def read_words(text: str) -> Words | None:
    """The words of a text command, or plain ones; None if they are a list or no words."""
    if is_marked(text):
        inner = text[1:-1].strip()
        if not inner or any(mark in inner for mark in "\\=<>^_+*/" + GROUP) or split(inner, ",")[1:]:
            return None
        return _letter(inner) or Words(" ".join(inner.strip(".,;:! ").split()))
    if letter := _letter(text):
        return letter
    if _MARKS.fullmatch(text) or text == "NO" or (text.lower() in _SHORT and not text.isupper()):
        return Words(text)
    marked = OPEN in text and _PROSE.fullmatch(text)
    if marked or (_LONG_WORD.search(text) and _PLAIN_WORDS.fullmatch(text)):
        if split(text, "or")[1:] or ("," in text and marked):
            return None
        said = " ".join(text.replace(OPEN, " ").replace(CLOSE, " ").strip(".,;:! ").split())
        return _letter(said) or Words(said)
    return None


def is_marked(text: str) -> bool:
    """Whether the whole text is one text command."""
    return text.startswith(OPEN) and text.endswith(CLOSE) and text.count(OPEN) == 1


def _letter(text: str) -> Words | None:
    found = _LETTER.fullmatch(text)
    return Words(found[1]) if found and (len(text) == 1 or found[1].isupper()) else None
