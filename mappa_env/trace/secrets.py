"""Keys and passwords, which no trace may hold."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping

HIDDEN = b"[secret]"
SHORTEST = 8
"""Characters below which the value of an environment variable is not taken for a secret."""
_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL", re.IGNORECASE)
_START = rb"(?:(?<![A-Za-z0-9])|(?<=\\[bfnrt])|(?<=\\u[0-9a-f]{4}))"
"""Where a key may begin: not within a word, though the letter of a JSON escape is no word."""
_SHORT = (
    (b"eyJ", _START + rb"eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]{8,}"),
    (b"xox", rb"xox[abeoprs]-[\w-]{10,}"),
    (b"earer ", rb"(?<=[Bb]earer )(?=[\w.~+/-]*[0-9])[\w.~+/-]{20,}=*"),
    (
        b"PRIVATE KEY-----",
        rb'-----BEGIN [A-Z ]*PRIVATE KEY-----[^"]{0,20000}?-----END [A-Z ]*PRIVATE KEY-----',
    ),
)
"""(what every such key contains, its pattern): looking for the former first costs almost nothing."""
_LONG = (
    (b"sk-", _START + rb"c?sk-(?:(?:proj|ant|svcacct|admin|or|lf)-[\w-]{16,}|[A-Za-z0-9]{32,})"),
    (b"sk_", _START + rb"[a-z]?sk_(?:live_|test_)?[A-Za-z0-9]{20,}"),
    (b"xai-", _START + rb"xai-[A-Za-z0-9]{20,}"),
    (b"nvapi-", rb"nvapi-[\w-]{20,}"),
    (b"pplx-", rb"pplx-[A-Za-z0-9]{20,}"),
    (b"fw_", _START + rb"(?<!_)fw_[A-Za-z0-9]{20,}"),
    (b"r8_", _START + rb"(?<!_)r8_[A-Za-z0-9]{30,}"),
    (b"tgp_v1_", rb"tgp_v1_[\w-]{20,}"),
    (b"dapi", _START + rb"dapi[0-9a-f]{32}"),
    (b"AIza", rb"AIza[\w-]{35}"),
    (b"ya29.", rb"ya29\.[\w-]{20,}"),
    (b"hf_", _START + rb"hf_[A-Za-z0-9]{30,}"),
    (b"gh", _START + rb"gh[pousr]_[A-Za-z0-9]{36,}"),
    (b"github_pat_", rb"github_pat_\w{50,}"),
    (b"glpat-", rb"glpat-[\w-]{20,}"),
    (b"AKIA", rb"(?<![A-Z0-9])AKIA[A-Z0-9]{16}(?![A-Z0-9])"),
    (b"ASIA", rb"(?<![A-Z0-9])ASIA[A-Z0-9]{16}(?![A-Z0-9])"),
)
"""The same for keys with 20 or more letters, digits, ``_`` or ``-`` in a row, which few texts have."""
_RUN = b"a" * 20
_RUNS = bytes(97 if re.match(rb"[\w-]", bytes([c])) else 32 for c in range(256))
"""Makes an ``a`` of each byte that such a run may hold, and a space of the others."""


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
        self._long = [(needle, re.compile(pattern)) for needle, pattern in _LONG]
        self._short = [(needle, re.compile(pattern)) for needle, pattern in _SHORT]
        for value in sorted(values, key=len, reverse=True):
            for written in {json.dumps(value), json.dumps(value, ensure_ascii=False)}:
                text = written[1:-1].encode("utf-8", "surrogateescape")
                self._short.append((text, re.compile(_value(text))))

    def hide(self, lines: bytes) -> bytes:
        """``lines`` without secrets; they stay valid JSON with the same keys."""
        for needle, pattern in self._short:
            if needle in lines:
                lines = pattern.sub(HIDDEN, lines)
        if _RUN in lines.translate(_RUNS):
            for needle, pattern in self._long:
                if needle in lines:
                    lines = pattern.sub(HIDDEN, lines)
        return lines


def _value(text: bytes) -> bytes:
    """A pattern for ``text`` that spares a key of a JSON object: a password may be a word of the format."""
    text = re.escape(text)
    return rb'(?<![{,]")' + text + rb"|" + text + rb'(?!":)'
