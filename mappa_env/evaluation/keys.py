"""No file of an evaluation holds a key, so no option may be one."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

from mappa_env.errors import OptionError
from mappa_env.trace.secrets import Secrets

_NAME = re.compile(
    r"(^|[-_.])(key|token|secret|password|passwd|credentials?|authorization|bearer|cookie)$"
    r"|api-?_?key|(access|auth|private|secret)-?_?(key|token)|apikey|^auth$",
    re.IGNORECASE,
)
_OWN = frozenset({"key_variable"})
"""Options that name a key without being one."""


def refuse_keys(options: Mapping[str, Any], what: str) -> None:
    """Raises OptionError if an option looks like a key, by its name or its value. Does not quote the value.

    ``key_variable`` names the environment variable that holds the key.
    """
    for place, value in _leaves(options, ""):
        name = place.rpartition(".")[2]
        named = isinstance(value, str) and value and name not in _OWN and _NAME.search(name)
        if named or _is_key(value):
            raise OptionError(
                f"{what}: {place} looks like a key, and options are written to the evaluation's files: put "
                "the key into an environment variable and name it with key_variable."
            )


def _is_key(value: Any) -> bool:
    line = json.dumps(value, default=str).encode()
    return Secrets(os.environ).hide(line) != line


def _leaves(value: Any, place: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for name, each in value.items():
            yield from _leaves(each, f"{place}.{name}" if place else str(name))
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _leaves(each, place)
    else:
        yield place, value
