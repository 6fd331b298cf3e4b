"""Texts of agents, their code and coaches as a page may show them."""

from __future__ import annotations

import re

LONGEST = 4000
"""Characters of one text that are shown."""
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def cut(text: str) -> str:
    """The head of a text, with control characters and those that turn the writing direction spelled out."""
    shown = text if len(text) <= LONGEST else f"{text[:LONGEST]}\n[{len(text) - LONGEST:,} more characters]"
    return _CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", shown.replace("\r\n", "\n"))
