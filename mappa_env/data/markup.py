r"""What copying adds to a problem, or leaves out: figures, HTML, doubled backslashes, a request for a box."""

from __future__ import annotations

import html
import re

_FIGURE = re.compile(
    r"\[asy\](?:(?!\[asy\]).)*?\[/asy\]|\\begin ?\{asy\}(?:(?!\\begin ?\{asy\}).)*?\\end ?\{asy\}", re.DOTALL
)
_LEAST = 60
"""Characters but spaces of a problem that is known without its figure."""
_ENTITY = re.compile(r"&(?:[A-Za-z][A-Za-z0-9]{1,30}|#\d{1,7}|#[xX][0-9A-Fa-f]{1,6});")
_ODD = re.compile(r"(?<!\\)(?:\\\\)*\\(?!\\)")
"""A run of backslashes that no doubling gives."""
_DOUBLED = re.compile(
    r"\\\\(?:[dt]?frac|sqrt|cdot|times|left|right|text|math|begin|end|angle|triangle|circ|leq?|geq?|neq?|pi|theta"
    r"|log|sin|cos|tan|ldots|dots|cdots|binom|overline|pmod|equiv|sum|prod|infty|alpha|beta|pm|in)(?![a-z])"
    r"|\\\\\((?:(?!\\\\\().)*?\\\\\)|\\\\\[(?:(?!\\\\\[).)*?\\\\\]",
    re.DOTALL,
)
_PREFIX = re.compile(r"\s*\**(?:Problem|Question|Exercise)(?: ?\d{1,3})? ?[.:]\** +(?=\S)", re.IGNORECASE)
_REQUEST = re.compile(
    r"(?:(?<=[.?!])|(?<=[.?!][\"'$)\]])|\n)\s*(?:Please|Put|Place|Write|Give|Express|Present|Return|Output|Enclose"
    r"|Box|Provide|Let['’]s|Think|Reason|Make sure|Remember|Report|State|Submit)\b(?=[^.?!\n]*\banswer\b)"
    r"[^.?!\n]{0,200}\\boxed ?(?:\{[^{}]*\})?[^.?!\n]{0,40}[.!]?\s*$",
    re.IGNORECASE,
)


def unmarked(text: str) -> str:
    """``text`` without all that. A figure stays where little else tells the problem from others."""
    for _ in range(2):  # &amp;lt;
        text = _ENTITY.sub(lambda found: html.unescape(found[0]), text)
    if "\\\\" in text and not _ODD.search(text) and _DOUBLED.search(text):
        text = text.replace("\\\\", "\\")
    bare = _FIGURE.sub(" ", text)
    if len("".join(bare.split())) >= _LEAST:
        text = bare
    return _REQUEST.sub("", _PREFIX.sub("", text, count=1) if _PREFIX.match(text) else text)
