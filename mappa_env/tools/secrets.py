"""Secrets that a card names by the host's environment variables, and keeping them out of texts.

A card writes ``env: {TOKEN: $LAB_TOKEN}`` or ``headers: {Authorization: "Bearer $LAB_TOKEN"}``. The value
never leaves the tool that needs it: it has no place in options that are recorded, and everything that the
tool says is cleaned of it.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import re
import string
import urllib.parse
from collections.abc import Iterator, Mapping
from typing import Any

from mappa_env.errors import OptionError

SHORTEST = 8
"""Characters of a secret: a shorter one occurs in texts by chance, so it cannot be kept out of them."""
_LIKE_A_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL", re.IGNORECASE)
SECTIONS = ("env", "headers")
"""The options whose values may name variables."""


class Hidden:
    """A text that contains secrets. Printing it shows the names of their variables."""

    __slots__ = ("_text", "_value")

    def __init__(self, text: str, value: str) -> None:
        self._text, self._value = text, value

    def reveal(self) -> str:
        """The text with the secrets in place."""
        return self._value

    def __repr__(self) -> str:
        return f"Hidden({self._text!r})"

    def __reduce__(self) -> Any:
        raise TypeError("a secret cannot be pickled or copied.")


class Secrets:
    """The secrets of one tool."""

    def __init__(self) -> None:
        self._forms: list[tuple[str, str]] = []

    def resolve(self, where: str, options: Mapping[str, Any]) -> dict[str, Any]:
        """``options`` with every value in ``env`` and ``headers`` as ``Hidden``.

        ``where`` names the tool, for messages. ``$$`` is a dollar sign. Raises OptionError for a variable
        that is not set, or too short to be recognised in texts.
        """
        found = dict(options)
        for section in SECTIONS:
            if section in found:
                found[section] = self._section(f"{where}: {section}", found[section])
        return found

    def clean(self, text: str) -> str:
        """``text`` with the name of the variable in place of each secret, however it is encoded."""
        for form, shown in self._forms:
            if form in text:
                text = text.replace(form, shown)
        return text

    def _section(self, where: str, values: Any) -> dict[str, Hidden]:
        if not isinstance(values, Mapping):
            raise OptionError(f"{where} must map names to texts, found {values!r:.80}.")
        for name, value in values.items():
            if not isinstance(name, str) or not isinstance(value, str):
                raise OptionError(f"{where}.{name} must be a text, found {value!r:.80}.")
        return {name: Hidden(value, self._expand(f"{where}.{name}", value)) for name, value in values.items()}

    def _expand(self, where: str, text: str) -> str:
        template = string.Template(text)
        if not template.is_valid():
            raise OptionError(f"{where}={text!r}: write $NAME for a variable, and $$ for a dollar sign.")
        values = {name: self._variable(where, name) for name in template.get_identifiers()}
        return template.substitute(values)

    def _variable(self, where: str, name: str) -> str:
        value = os.environ.get(name, "")
        if not value:
            raise OptionError(f"{where} names the environment variable {name}, which is not set: export it.")
        if len(value) < SHORTEST:
            raise OptionError(
                f"{where} names the environment variable {name}, whose value has {len(value)} characters: "
                f"a secret needs {SHORTEST} or more, or it could not be kept out of results. Write a value "
                "that is no secret into the card."
            )
        known = {form for form, _ in self._forms}
        self._forms += [(form, f"[${name}]") for form in _forms(value) if form not in known]
        self._forms.sort(key=lambda pair: -len(pair[0]))  # a secret may contain another
        return value


def holds_secret(variable: str) -> bool:
    """Whether an environment variable is named like a key, a token, a secret, a password or a credential."""
    return _LIKE_A_SECRET.search(variable) is not None


def names_variables(options: Mapping[str, Any]) -> bool:
    """Whether ``env`` or ``headers`` take anything from the host's environment."""
    sections = [options[name] for name in SECTIONS if isinstance(options.get(name), Mapping)]
    texts = (value for section in sections for value in section.values() if isinstance(value, str))
    return any("$" in text.replace("$$", "") for text in texts)


def _forms(secret: str) -> Iterator[str]:
    """Usual spellings of a secret: as it is, in JSON, in URLs, backwards, in hexadecimal and in base64."""
    data = secret.encode("utf-8", "surrogateescape")
    yield secret
    yield secret[::-1]
    yield json.dumps(secret)[1:-1]
    yield repr(secret)[1:-1]
    yield urllib.parse.quote(secret, safe="", errors="surrogateescape")
    yield urllib.parse.quote_plus(secret, errors="surrogateescape")
    yield binascii.hexlify(data).decode()
    yield binascii.hexlify(data).decode().upper()
    for skipped in range(3):  # base64 of a longer text has it at one of three offsets
        aligned = data[skipped:]
        whole = aligned[: len(aligned) // 3 * 3]
        if len(whole) >= 6:
            yield base64.b64encode(whole).decode()
            yield base64.urlsafe_b64encode(whole).decode()
