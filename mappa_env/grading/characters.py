r"""Small characters as TeX: ``x²`` is ``x^{2}``, ``x₁`` is ``x_{1}``, ``2½`` is ``2\frac{1}{2}``."""

from __future__ import annotations

import re
import unicodedata

_RAISED = re.compile("[\u00b2\u00b3\u00b9\u2070\u2071\u2074-\u207f]+")
_LOWERED = re.compile("[\u2080-\u208e\u2090-\u209c]+")
_FRACTION = re.compile("[\u00bc-\u00be\u2150-\u215e\u2189]")


def in_tex(text: str) -> str:
    """The text with powers, indices and fractions as TeX writes them."""
    if text.isascii():
        return text
    text = _RAISED.sub(lambda found: f"^{{{_plain(found[0])}}}", text)
    text = _LOWERED.sub(lambda found: f"_{{{_plain(found[0])}}}", text)
    return _FRACTION.sub(_fraction, text)


def _plain(text: str) -> str:
    return unicodedata.normalize("NFKC", text)


def _fraction(found: re.Match[str]) -> str:
    top, _, bottom = _plain(found[0]).partition("\u2044")
    return rf"\frac{{{top}}}{{{bottom}}}"
