r"""Characters as TeX writes them: ``x²`` is ``x^{2}``, ``½`` is ``\frac{1}{2}``, ``θ`` is ``\theta``."""

from __future__ import annotations

import re
import unicodedata

from mappa_env.data.signs import ACCENTS, GREEK

_WRITTEN = {
    **dict.fromkeys("°º˚", r"^\circ "),
    "∛": r"\sqrt[3]",
    "∜": r"\sqrt[4]",
}
_INVISIBLE = re.compile("[\u00ad\u200b-\u200f\u2060-\u2064\ufe00-\ufe0f\ufeff]")
_THIN = re.compile(r"(?<=\d)[\u2009\u202f](?=\d{3}(?!\d))")
"""Between the thousands of a number."""
_RAISED = re.compile(r"(?:\^[^\s^\\]){2,}|(?:_[^\s_\\]){2,}")
"""Characters that are raised or lowered one by one."""
_WORD = re.compile(r"[^\W\d_]{3,}")
_ACCENTED = re.compile(f"(\\w)([{''.join(ACCENTS)}])")
_DENIED = re.compile("(.)\u0338")
_GREEK = re.compile(f"([{''.join(GREEK)}])(?=([A-Za-z])?)")


def as_tex(text: str) -> str:
    """``text`` in ASCII where TeX has commands; accents of words and invisible characters are left out."""
    if text.isascii():
        return text
    text = _THIN.sub(r"\,", _INVISIBLE.sub("", text))
    text = "".join(map(_character, unicodedata.normalize("NFC", text)))
    text = _RAISED.sub(lambda found: f"{found[0][0]}{{{found[0][1::2]}}}", text)
    text = _WORD.sub(lambda found: "".join(map(_plain, found[0])), text)
    text = _DENIED.sub(r"\\not \1", unicodedata.normalize("NFD", text))
    text = _ACCENTED.sub(lambda found: f"{ACCENTS[found[2]]}{{{found[1]}}}", text)
    return _GREEK.sub(lambda found: GREEK[found[1]] + (" " if found[2] else ""), text)


def _character(letter: str) -> str:
    if letter in _WRITTEN:
        return _WRITTEN[letter]
    kind, _, _ = unicodedata.decomposition(letter).partition(" ")
    plain = unicodedata.normalize("NFKC", letter) if kind.startswith("<") else letter
    if kind == "<fraction>":
        top, _, bottom = plain.partition("\u2044")
        return rf" \frac{{{top}}}{{{bottom}}}"
    return {"<super>": "^", "<sub>": "_"}.get(kind, "") + plain


def _plain(letter: str) -> str:
    """Without its accent, if it is a Latin letter with one."""
    first = unicodedata.normalize("NFD", letter)[0]
    return first if first.isascii() else letter
