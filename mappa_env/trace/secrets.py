"""Keys and passwords, which no trace may hold."""

from __future__ import annotations

import json
import re
import urllib.parse
from collections.abc import Iterable, Mapping

from mappa_env.tools.secrets import holds_secret
from mappa_env.trace.key_forms import LONG, RUN, SHORT

HIDDEN = "[secret]"
SHORTEST = 8
"""Characters below which the value of an environment variable is not taken for a secret."""
_RAREST_FIRST = b"ZQXJKVGYUWzqxjBFDHLMPOCRNISEATkvbpygfwmucldrhsnioate "
"""Letters from rare to frequent in prompts and code."""
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*+"(\s*:)?')
"""A string of JSON, and the colon if it is the key of an object, which the format needs as it is."""
_WORD_END = re.compile(rb'[ "]')
_LONG_RUN = b"a" * RUN
_RUNS = bytes(97 if re.match(rb"[\w-]", bytes([c])) else 32 for c in range(256))
"""Makes an ``a`` of each byte that a run may hold, and a space of the others."""
_FORMS = (*SHORT, *LONG)
_LONG_NEEDLES = tuple({needle.encode() for needle, _ in LONG})


class Secrets:
    """Replaces secrets in JSON lines: keys of known forms, and the values of variables that hold keys.

    ``environment``: variables by name; those named like a key, a token, a secret, a password or a credential
    count, and those in ``more``.
    """

    def __init__(self, environment: Mapping[str, str], more: Iterable[str] = ()) -> None:
        wanted = set(more)
        values = {
            form
            for name, value in environment.items()
            if name in wanted or holds_secret(name)
            for form in _forms(value)
            if len(form) >= SHORTEST
        }
        self._values = sorted(values, key=len, reverse=True)
        signs = [needle.encode() for needle, _ in SHORT]
        for value in self._values:
            for written in {json.dumps(value), json.dumps(value, ensure_ascii=False)}:
                signs.append(written[1:-1].encode("utf-8", "surrogateescape"))
        self._signs = [(_rarest(sign), sign) for sign in signs]
        """What JSON with a secret contains, unless the key is a long one; one byte is found much sooner."""

    def hide(self, lines: bytes) -> bytes:
        """JSON ``lines`` without secrets in their strings; numbers and keys of objects stay."""
        return _STRING.sub(self._written, lines) if self.may_be_in(lines) else lines

    def may_be_in(self, lines: bytes) -> bool:
        """Whether JSON ``lines`` look as if they held a secret: a quick look that misses none."""
        for byte, sign in self._signs:
            if byte in lines and sign in lines:
                return True
        return _may_hold_long_key(lines)

    def _written(self, found: re.Match[bytes]) -> bytes:
        if found[1]:
            return found[0]
        text = json.loads(found[0])
        shown = self._without(text)
        return found[0] if shown == text else json.dumps(shown, ensure_ascii=found[0].isascii()).encode()

    def _without(self, text: str) -> str:
        for value in self._values:
            text = text.replace(value, HIDDEN)
        for needle, pattern in _FORMS:
            if needle in text:
                text = pattern.sub(HIDDEN, text)
        return text


def _forms(value: str) -> tuple[str, ...]:
    """How texts show it: also without the line break at its end, in JSON, in Python, and in URLs."""
    bare = value.strip()
    quoted = urllib.parse.quote(bare, safe="", errors="surrogateescape")
    return value, bare, json.dumps(bare)[1:-1], repr(bare)[1:-1], quoted


def _rarest(sign: bytes) -> bytes:
    """The byte of ``sign`` that the fewest texts hold."""
    return bytes([min(sign, key=lambda byte: _RAREST_FIRST.find(byte) % 256)])


def _may_hold_long_key(lines: bytes) -> bool:
    """Whether a word around a long run holds the sign of a long key: names and rules of tables do not."""
    runs = lines.translate(_RUNS)
    end = 0
    while (run := runs.find(_LONG_RUN, end)) >= 0:
        start = max(lines.rfind(b" ", end, run), lines.rfind(b'"', end, run), end)
        word_end = _WORD_END.search(lines, run)
        end = len(lines) if word_end is None else word_end.start()
        word = lines[start:end]
        if any(needle in word for needle in _LONG_NEEDLES):
            return True
    return False
