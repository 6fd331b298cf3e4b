"""No file of an evaluation or a run holds a key, so no option may be one."""

from __future__ import annotations

import itertools
import json
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

from mappa_env.errors import OptionError
from mappa_env.trace.secrets import Secrets

_NAME = re.compile(
    r"(^|[-_.])(key|token|secret|cookie)$"
    r"|(^|[-_.])(pwd|password|passwd|passphrase|credentials?|auth|authorization|bearer)([-_.]|$)"
    r"|(^|[-_.])key-?_?id$"
    r"|api-?_?key|(access|auth|private|secret)-?_?(key|token)|apikey",
    re.IGNORECASE,
)
_RANDOM = re.compile(
    r"[0-9a-fA-F]{32,}|(?=[^0-9]*[0-9])(?=[^a-z]*[a-z])(?=[^A-Z]*[A-Z])[A-Za-z0-9]{32,}={0,2}"
)
"""A whole word that is none, which is a key of a form that nobody knows."""
_HASH = re.compile(r"[0-9a-fA-F]{32,}")
_LOGIN = re.compile(
    r"://[^/\s@]*:[^/\s]*@|[?&](?:api_?key|key|token|secret)=|\b(?:bearer|basic)\s+[\w.~+/-]{8}"
    r"|^\s*(?:token|digest|key|api-?key)\s+(?=\S*[0-9])[\w.~+/=-]{8,}\s*$",
    re.IGNORECASE,
)
"""An address with a password or a key in it, or the value of a header."""
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*://(\S*)", re.IGNORECASE)
_OF_A_VERSION = frozenset(
    {"version", "revision", "commit", "sha", "sha1", "sha256", "hash", "digest", "checksum"}
)
"""Options that may be a hash."""
_OF_A_THING = _OF_A_VERSION | {
    *("account", "accounts", "project", "projects", "model", "models", "deployment", "deployments"),
    *("endpoint", "endpoints", "revisions", "commits", "blob", "tree", "resolve", "snapshots"),
}
"""Parts of an address after which a hash may stand."""


def refuse_keys(options: Mapping[str, Any], what: str) -> None:
    """Raises OptionError if an option looks like a key, by its name or its value. Does not quote the value.

    ``key_variable`` names the environment variable that holds the key. A hash may be the value of an option
    such as ``revision``, and follow a part of an address such as ``/models/``.
    """
    secrets = Secrets(os.environ)
    for place, value in _leaves(options, ""):
        if _is_key(place, secrets):
            place, why = "a name of an option", "looks like a key"
        else:
            why = _why(place, value, secrets)
        if why:
            raise OptionError(
                f"{what}: {place} {why}, and options are written to files: put the key into an environment "
                "variable and name it with key_variable."
            )


def _why(place: str, value: Any, secrets: Secrets) -> str:
    """In what respect an option looks like a key; empty if it does not."""
    name = place.rpartition(".")[2].lower()
    if isinstance(value, str) and value:
        if _NAME.search(name):
            return "looks like a key by its name"
        if _RANDOM.fullmatch(value.strip()) and place != "version":
            if not _HASH.fullmatch(value.strip()):
                return "looks like a key"
            if name not in _OF_A_VERSION:
                return "looks like a key (only an option such as revision may be a hash)"
        if _random_part(value):
            return "has an address with a part that looks like a key (a hash must follow /models/ or such)"
    return "looks like a key" if _is_key(value, secrets) else ""


def _is_key(value: Any, secrets: Secrets) -> bool:
    line = json.dumps(value, default=str).encode()
    return bool(isinstance(value, str) and _LOGIN.search(value)) or secrets.hide(line) != line


def _random_part(value: str) -> bool:
    """Whether a part of an address in ``value``, but its host, is random, and no hash where one may stand."""
    for address in _ADDRESS.findall(value):
        host, _, path = address.partition("/")
        parts = ["", *re.split(r"[/?&=#;:.]+", f"{host.rpartition('@')[0]}/{path}")]
        for before, part in itertools.pairwise(parts):
            if _RANDOM.fullmatch(part) and not (before.lower() in _OF_A_THING and _HASH.fullmatch(part)):
                return True
    return False


def _leaves(value: Any, place: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for name, each in value.items():
            yield from _leaves(each, f"{place}.{name}" if place else str(name))
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _leaves(each, place)
    else:
        yield place, value
