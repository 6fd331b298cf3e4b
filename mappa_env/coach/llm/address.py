"""``<model>@<base_url>``: a model's name may contain ``@`` itself."""

from __future__ import annotations

import re

_FORM = re.compile(r"(?P<model>.*)@(?P<url>https?://.*)", re.DOTALL)


def split_address(text: str) -> tuple[str, str]:
    """(model, base_url); the address begins after the last ``@`` before ``http://`` or ``https://``.

    Where there is none, it is what follows the last ``@``, or empty.
    """
    if found := _FORM.fullmatch(text):
        return found["model"], found["url"]
    model, at, url = text.rpartition("@")
    return (model, url) if at else (text, "")
