"""Keys and passwords, which no trace may hold."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping

from mappa_env.trace.key_forms import LONG, RUN, SHORT

HIDDEN = "[secret]"
SHORTEST = 8
"""Characters below which the value of an environment variable is not taken for a secret."""
_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL", re.IGNORECASE)
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*+"(\s*:)?')
"""A string of JSON, and the colon if it is the key of an object, which the format needs as it is."""
_LONG_RUN = b"a" * RUN
_RUNS = bytes(97 if re.match(rb"[\w-]", bytes([c])) else 32 for c in range(256))
"""Makes an ``a`` of each byte that a run may hold, and a space of the others."""


class Secrets:
    """Replaces secrets in JSON lines: keys of known forms, and the values of variables that hold keys.

    ``environment``: variables by name; those named like a key, a token, a secret, a password or a credential
    count, and those in ``more``.
    """

    def __init__(self, environment: Mapping[str, str], more: Iterable[str] = ()) -> None:
        wanted = set(more)
        values = {
            value
            for name, value in environment.items()
            if len(value) >= SHORTEST and (name in wanted or _NAME.search(name))
        }
        self._values = sorted(values, key=len, reverse=True)
        self._signs = [needle.encode() for needle, _ in SHORT]
        """What JSON with a secret contains, unless it has a long run."""
        for value in self._values:
            for written in {json.dumps(value), json.dumps(value, ensure_ascii=False)}:
                self._signs.append(written[1:-1].encode("utf-8", "surrogateescape"))

    def hide(self, lines: bytes) -> bytes:
        """JSON ``lines`` without secrets in their strings; numbers and keys of objects stay."""
        if _LONG_RUN in lines.translate(_RUNS) or any(sign in lines for sign in self._signs):
            return _STRING.sub(self._written, lines)
        return lines

    def _written(self, found: re.Match[bytes]) -> bytes:
        if found[1]:
            return found[0]
        text = json.loads(found[0])
        shown = self._without(text)
        return found[0] if shown == text else json.dumps(shown, ensure_ascii=found[0].isascii()).encode()

    def _without(self, text: str) -> str:
        for value in self._values:
            text = text.replace(value, HIDDEN)
        for needle, pattern in (*SHORT, *LONG):
            if needle in text:
                text = pattern.sub(HIDDEN, text)
        return text
