"""One spelling for each label and id: a column's type decides, not how a program printed a value."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence

_PLAIN = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?", re.ASCII)
_SCIENTIFIC = re.compile(r"[+-]?[0-9]+(?:\.[0-9]*)?[eE][+-]?[0-9]{1,3}", re.ASCII)
_TRUTHS = {"true": "True", "false": "False"}
_AS_NUMBER = {"True": "1", "False": "0"}
_AS_TRUTH = {number: truth for truth, number in _AS_NUMBER.items()}


def canonical(text: str) -> str:
    """One spelling per value: ``" 1.0 "``, ``"01"`` and ``"1"`` are equal, and ``"TRUE"`` and ``"true"``.

    Other texts, such as ``"Low"`` and ``"low"``, differ in every letter.
    """
    text = text.strip()
    match = _PLAIN.fullmatch(text)
    if match is None or not (match[2] or match[3]):
        return _TRUTHS.get(text.lower(), text)
    whole, rest = match[2].lstrip("0") or "0", (match[3] or "").rstrip("0")
    value = f"{whole}.{rest}" if rest else whole
    return f"-{value}" if match[1] == "-" and value != "0" else value


def number(text: str) -> float:
    """The number that a cell holds, as programs write numbers; also ``nan`` and ``inf``. Raises ValueError.

    Python also reads ``1_0`` and the digits of other scripts, which no other reader of tables does.
    """
    if "_" in text or not text.isascii():
        raise ValueError(f"not a number: {text!r:.60}")
    return float(text)


class Labels:
    """The labels of a column. Where they are booleans, or 0 and 1, either spelling is understood.

    Programs write booleans as 0 and 1, and comparisons as True and False.
    """

    def __init__(self, known: Iterable[str]) -> None:
        self.known = frozenset(map(canonical, known))
        same = next((kind for kind in (_AS_TRUTH, _AS_NUMBER) if self.known <= set(kind.values())), {})
        self._other: Mapping[str, str] = same if self.known else {}

    def __call__(self, text: str) -> str:
        """The canonical label, which need not be known."""
        value = canonical(text)
        return value if value in self.known else self._other.get(value, value)


class Keys:
    """Ids of a column: numbers by value if all are numbers that differ (``1150.0``, ``0007``), else texts."""

    def __init__(self, ids: Sequence[str]) -> None:
        """``ids``: those of the host's own table, which decide the type."""
        texts = {text.strip() for text in ids}
        self.numeric = all(_PLAIN.fullmatch(text) and text.strip("+-.") for text in texts) and (
            len({_number(text) for text in texts}) == len(texts)
        )

    def __call__(self, text: str) -> str:
        """The key by which an id is found."""
        text = text.strip()
        return (_number(text) if self.numeric else None) or text


def _number(text: str) -> str | None:
    """A number in one spelling: exact if it is whole, else the nearest float64, as tables are read."""
    if _PLAIN.fullmatch(text):
        value = canonical(text)
        return value if "." not in value else repr(float(value))
    if not _SCIENTIFIC.fullmatch(text):
        return None
    number = float(text)
    return None if not math.isfinite(number) else str(int(number)) if number.is_integer() else repr(number)
