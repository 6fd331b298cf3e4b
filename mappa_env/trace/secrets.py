"""Keys and passwords, which no trace may hold."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping

HIDDEN = b"[secret]"
SHORTEST = 8
"""Characters below which the value of an environment variable is not taken for a secret."""
_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL", re.IGNORECASE)
_KINDS = (
    (b"sk-", rb"(?<![A-Za-z0-9])sk-(?:(?:proj|ant|svcacct|admin|or|lf)-[\w-]{16,}|[A-Za-z0-9]{32,})"),
    (b"sk_", rb"(?<![A-Za-z0-9])[a-z]?sk_(?:live_|test_)?[A-Za-z0-9]{20,}"),
    (b"csk-", rb"(?<![A-Za-z0-9])csk-[a-z0-9]{32,}"),
    (b"xai-", rb"(?<![A-Za-z0-9])xai-[A-Za-z0-9]{20,}"),
    (b"nvapi-", rb"nvapi-[\w-]{20,}"),
    (b"pplx-", rb"pplx-[A-Za-z0-9]{20,}"),
    (b"fw_", rb"(?<![A-Za-z0-9_])fw_[A-Za-z0-9]{20,}"),
    (b"r8_", rb"(?<![A-Za-z0-9_])r8_[A-Za-z0-9]{30,}"),
    (b"tgp_v1_", rb"tgp_v1_[\w-]{20,}"),
    (b"dapi", rb"(?<![A-Za-z0-9])dapi[0-9a-f]{32}"),
    (b"AIza", rb"AIza[\w-]{35}"),
    (b"ya29.", rb"ya29\.[\w-]{20,}"),
    (b"eyJ", rb"(?<![A-Za-z0-9])eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]{8,}"),
    (b"hf_", rb"(?<![A-Za-z0-9])hf_[A-Za-z0-9]{30,}"),
    (b"gh", rb"(?<![A-Za-z0-9])gh[pousr]_[A-Za-z0-9]{36,}"),
    (b"github_pat_", rb"github_pat_\w{50,}"),
    (b"glpat-", rb"glpat-[\w-]{20,}"),
    (b"AKIA", rb"(?<![A-Z0-9])AKIA[A-Z0-9]{16}(?![A-Z0-9])"),
    (b"ASIA", rb"(?<![A-Z0-9])ASIA[A-Z0-9]{16}(?![A-Z0-9])"),
    (b"xox", rb"xox[abeoprs]-[\w-]{10,}"),
    (b"earer ", rb"(?<=[Bb]earer )(?=[\w.~+/-]*[0-9])[\w.~+/-]{20,}=*"),
    (b"PRIVATE KEY-----", rb"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?-----END [A-Z ]*PRIVATE KEY-----"),
)
"""(what every such key contains, its pattern): looking for the former first costs almost nothing."""


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
        self._kinds = [(needle, re.compile(pattern, re.DOTALL)) for needle, pattern in _KINDS]
        for value in sorted(values, key=len, reverse=True):
            for written in {json.dumps(value), json.dumps(value, ensure_ascii=False)}:
                text = written[1:-1].encode("utf-8", "surrogateescape")
                self._kinds.append((text, re.compile(_value(text))))

    def hide(self, lines: bytes) -> bytes:
        """``lines`` without secrets; they stay valid JSON with the same keys."""
        for needle, pattern in self._kinds:
            if needle in lines:
                lines = pattern.sub(HIDDEN, lines)
        return lines


def _value(text: bytes) -> bytes:
    """A pattern for ``text`` that spares a key of a JSON object: a password may be a word of the format."""
    text = re.escape(text)
    return rb'(?<![{,]")' + text + rb"|" + text + rb'(?!":)'
