"""``<model>@<base_url>``: a model's name may contain ``@`` itself."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

_LIKE = "http://localhost:8000/v1"
_FORM = re.compile(r"(?P<model>.*)@(?P<url>https?://.*)", re.DOTALL)


def split_address(text: str) -> tuple[str, str]:
    """(model, base_url); the address begins after the last ``@`` before ``http://`` or ``https://``.

    Where there is none, it is what follows the last ``@``, or empty.
    """
    if found := _FORM.fullmatch(text):
        return found["model"], found["url"]
    model, at, url = text.rpartition("@")
    return (model, url) if at else (text, "")


def problem_of(url: str) -> str:
    """Why ``url`` is no address of a server, without quoting it; empty if it is one. It must hold no key."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return f"must look like {_LIKE}"
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        return f"must look like {_LIKE}"
    if parts.username or parts.password or parts.query or parts.fragment or "@" in parts.netloc:
        return f"must look like {_LIKE}, without a user name, key or query"
    return ""
