"""The token that clients of a served environment show. It is read where it is needed, and kept nowhere."""

from __future__ import annotations

import os

from mappa_env.errors import OptionError

VARIABLE = "MAPPA_SERVE_TOKEN"
"""The environment variable with the token; no file and no output holds it."""
LEAST = 16
HINT = "python -c 'import secrets; print(secrets.token_urlsafe())' makes one"


def token() -> str:
    """The token; empty if there is none. Raises OptionError if it is too short, or fits no header."""
    found = os.environ.get(VARIABLE, "")
    if found and len(found) < LEAST:
        raise OptionError(f"the token in {VARIABLE} needs {LEAST} characters: {HINT}.")
    if not (found.isascii() and found.isprintable() and " " not in found):
        raise OptionError(f"the token in {VARIABLE} must be printable ASCII without spaces: {HINT}.")
    return found
