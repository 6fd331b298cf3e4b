"""Finds the cause in what a server says about a failure, which often quotes the whole request before it."""

from __future__ import annotations

import re

_MOST = 400
"""Characters of a cause that a message quotes at most."""
_LEAD = re.compile(r"exception on running (?:code|command [^\n]*?)\s*: ")
_END = re.compile(r"(?: \|)? None\s*$")
"""What the server appends: the value of a function that prints a traceback elsewhere."""


def cause_of(message: str, code: str) -> str:
    """The cause in a ``message`` of the server, without the source ``code`` of the request."""
    words = message.replace(code, "") if code else message
    return _bounded(_END.sub("", _LEAD.sub("", words, count=1)).strip())


def last_line(stderr: str) -> str:
    """The cause that a program printed last: the line after its traceback, with what continues it."""
    lines = [line for line in stderr.splitlines() if line.strip()]
    plain = [number for number, line in enumerate(lines) if not line[0].isspace()]
    return _bounded("\n".join(lines[plain[-1] :]) if plain else "")


def _bounded(words: str) -> str:
    return (words if len(words) <= _MOST else words[:_MOST] + "...") or "no reason given"
