"""Converts file names, which hostile code may choose, to a unique printable form and back."""

from __future__ import annotations

import re

from mappa_env.errors import WorkspaceError

_ESCAPED = re.compile(r"\\(?:\\|x([0-9a-f]{2})|u([0-9a-f]{4})|U([0-9a-f]{8}))")


def shown(name: str) -> str:
    r"""Escape unprintable characters in ``name``: ``\n`` as ``\x0a``, a raw byte as ``\xff``.

    Different names have different escaped forms, and a printable name without a backslash is unchanged. The
    result contains no control, bidirectional or lone surrogate character.
    """
    return name if name.isprintable() and "\\" not in name else "".join(map(_escape, name))


def meant(text: str) -> str:
    """The name whose ``shown`` form is ``text``, as ``os`` functions expect it (surrogateescape)."""
    return _ESCAPED.sub(_unescape, text) if "\\" in text else text


def parts(name: str) -> list[str]:
    """The components of a name in the workspace. Raises WorkspaceError for a name that could leave it."""
    found = name.split("/")
    if "\0" in name or any(part in ("", ".", "..") for part in found):
        raise WorkspaceError(
            f"{shown(name)!r} does not stay inside the workspace: use a relative name without '..'."
        )
    return found


def _escape(character: str) -> str:
    code = ord(character)
    if character == "\\":
        return "\\\\"
    if character.isprintable():
        return character
    if 0xDC80 <= code <= 0xDCFF:  # a byte that is not UTF-8, as surrogateescape represents it
        return f"\\x{code - 0xDC00:02x}"
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _unescape(match: re.Match[str]) -> str:
    byte, short, long = match.groups()
    if byte is not None:
        return chr(int(byte, 16) + (0xDC00 if int(byte, 16) >= 0x80 else 0))
    code = int(short or long or "5c", 16)
    return chr(code) if code < 0x110000 else match[0]
