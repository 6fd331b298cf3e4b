"""One spelling for each label and id: a column's type decides, not how a program printed a value."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal

_PLAIN = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?", re.ASCII)
_SCIENTIFIC = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)[eE][+-]?[0-9]{1,3}", re.ASCII)
_TRUTHS = {"true": "True", "false": "False"}
_AS_NUMBER = {"True": "1", "False": "0"}
_AS_TRUTH = {number: truth for truth, number in _AS_NUMBER.items()}
MISSING = frozenset(
    {"", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN"}
    | {"<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null"}
)
"""What pandas reads as a missing value, and writes as an empty cell."""


def canonical(text: str) -> str:
    """One spelling per value: ``" 1.0 "``, ``"01"``, ``"1e0"`` and ``"1"`` are equal.

    So are ``"TRUE"`` and ``"true"``. Other texts, such as ``"Low"`` and ``"low"``, differ in every letter.
    """
    text = text.strip()
    return _number(text) or _TRUTHS.get(text.lower(), text)


def number(text: str) -> float:
    """The number that a cell holds, as programs write numbers; also ``nan`` and ``inf``. Raises ValueError.

    Python also reads ``1_0`` and the digits of other scripts, which no other reader of tables does.
    """
    if "_" in text or not text.isascii():
        raise ValueError(f"not a number: {text!r:.60}")
    return float(text)


class Labels:
    """The labels of a column. Where they are booleans, or 0 and 1, either spelling is understood.

    Programs write booleans as 0 and 1, and comparisons as True and False. Where one label is called like a
    missing value, such as ``NA``, all missing values are that label: pandas writes it as an empty cell.
    """

    def __init__(self, known: Iterable[str]) -> None:
        self.known = frozenset(map(canonical, known))
        same = next((kind for kind in (_AS_TRUTH, _AS_NUMBER) if self.known <= set(kind.values())), {})
        self._other: Mapping[str, str] = same if self.known else {}
        if len(missing := self.known & MISSING) == 1:
            self._other = {**self._other, **dict.fromkeys(MISSING, *missing)}

    def __call__(self, text: str) -> str:
        """The canonical label, which need not be known."""
        value = canonical(text)
        return value if value in self.known else self._other.get(value, value)


class Keys:
    """Ids of a column: numbers by value if all are numbers that differ (``1150.0``, ``0007``), else texts."""

    def __init__(self, ids: Sequence[str]) -> None:
        """``ids``: those of the host's own table, which decide the type."""
        texts = {text.strip() for text in ids}
        numbers = {_number(text) for text in texts}
        self.numeric = None not in numbers and len(numbers) == len(texts)

    def __call__(self, text: str) -> str:
        """The key by which an id is found."""
        text = text.strip()
        return (_number(text) if self.numeric else None) or text


def _number(text: str) -> str | None:
    """A number in one spelling: exact if it is whole, else the nearest float64, as tables are read.

    None for any other text. ``numpy.savetxt`` writes 0.1 as ``1.000000000000000056e-01``.
    """
    match = _PLAIN.fullmatch(text)
    if match and (match[2] or match[3]):
        if not (match[3] or "").rstrip("0"):
            whole = match[2].lstrip("0") or "0"
            return f"-{whole}" if match[1] == "-" and whole != "0" else whole
    elif not _SCIENTIFIC.fullmatch(text):
        return None
    value = float(text)
    if not math.isfinite(value):
        return None
    return str(int(value)) if value.is_integer() else format(Decimal(repr(value)), "f")
