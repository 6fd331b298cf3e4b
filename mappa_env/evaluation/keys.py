"""No file of an evaluation or a run holds a key, so no option may be one."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

from mappa_env.errors import OptionError
from mappa_env.trace.secrets import Secrets

_NAME = re.compile(
    r"(^|[-_.])(key|token|secret|password|passwd|passphrase|credentials?|auth|authorization|bearer|cookie)$"
    r"|api-?_?key|(access|auth|private|secret)-?_?(key|token)|apikey",
    re.IGNORECASE,
)
_RANDOM = re.compile(
    r"[0-9a-fA-F]{32,}|(?=[^0-9]*[0-9])(?=[^a-z]*[a-z])(?=[^A-Z]*[A-Z])[A-Za-z0-9]{32,}={0,2}"
)
"""A whole value without words, which is a key of a form that nobody knows."""
_LOGIN = re.compile(
    r"://[^/\s@]*:[^/\s]*@|[?&](?:api_?key|key|token|secret)=|\b(?:bearer|basic)\s+[\w.~+/-]{8}",
    re.IGNORECASE,
)
"""An address with a password or a key in it, or the value of a header."""
_OWN = frozenset({"version"})
"""Options that may look random."""


def refuse_keys(options: Mapping[str, Any], what: str) -> None:
    """Raises OptionError if an option looks like a key, by its name or its value. Does not quote the value.

    ``key_variable`` names the environment variable that holds the key.
    """
    secrets = Secrets(os.environ)
    for place, value in _leaves(options, ""):
        name = place.rpartition(".")[2]
        named = isinstance(value, str) and value and _NAME.search(name)
        shown = "a name of an option" if _is_key(place, secrets) else place
        random = isinstance(value, str) and place not in _OWN and _RANDOM.fullmatch(value.strip())
        if named or random or shown != place or _is_key(value, secrets):
            raise OptionError(
                f"{what}: {shown} looks like a key, and options are written to files: put the key into an "
                "environment variable and name it with key_variable."
            )


def _is_key(value: Any, secrets: Secrets) -> bool:
    line = json.dumps(value, default=str).encode()
    return bool(isinstance(value, str) and _LOGIN.search(value)) or secrets.hide(line) != line


def _leaves(value: Any, place: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for name, each in value.items():
            yield from _leaves(each, f"{place}.{name}" if place else str(name))
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _leaves(each, place)
    else:
        yield place, value
