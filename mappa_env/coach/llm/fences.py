"""Makes text that an agent controls safe to show to a model that judges it.

A fence carries a random number, drawn for each call, so no text can close it. Text that looks like a fence
and invisible characters are escaped. This lowers the success rate of attacks but does not exclude them
(Hines et al. 2024, arXiv 2403.14720); therefore the host computes the score.
"""

from __future__ import annotations

import secrets
import unicodedata

_MARK = "<<<"
_HARMLESS = "‹‹‹"
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Unicode: control, format (zero-width, bidirectional), surrogate, private, unassigned, line separators."""
_KEPT = "\n\t"
_FILLERS = frozenset("\u115f\u1160\u3164\uffa0\u2800")
"""Invisible letters."""


def nonce() -> str:
    """128 random bits."""
    return secrets.token_hex(16)


def fenced(name: str, text: str, nonce: str, limit: int) -> str:
    """``text`` between two marks, cut in the middle to at most ``limit`` characters."""
    shown, omitted = clipped(neutral(text), limit)
    note = f" ({omitted} characters left out in the middle)" if omitted else ""
    return f"{_MARK}{nonce} {name}{note}\n{shown}\n{_MARK}{nonce} end of {name}"


def neutral(text: str) -> str:
    """``text`` with characters that hide or reorder others, and anything like a fence, escaped."""
    if not text.isascii() or not text.isprintable():
        text = "".join(map(_seen, text))
    while _MARK in text:
        text = text.replace(_MARK, _HARMLESS)
    return text


def clipped(text: str, limit: int) -> tuple[str, int]:
    """(head and tail of ``text``, the number of characters between them that are left out)."""
    if len(text) <= limit:
        return text, 0
    head = limit // 2
    tail = limit - head
    omitted = len(text) - limit
    return f"{text[:head]}\n[... {omitted} characters left out ...]\n{text[-tail:]}", omitted


def _seen(character: str) -> str:
    if character in _KEPT:
        return character
    if character == "\r":
        return "\\r"
    if unicodedata.category(character) in _UNSEEN or character in _FILLERS:
        return f"\\u{{{ord(character):x}}}"
    return character
