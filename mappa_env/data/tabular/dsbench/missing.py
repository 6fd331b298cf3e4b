"""Words for missing values among labels: ``NA`` is a class beside words, but not beside numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from mappa_env.errors import DataError
from mappa_env.grading.spelling import MISSING, canonical, number

_WORDS = frozenset(word.casefold() for word in MISSING)
_TRUTHS = frozenset({"True", "False"})


def check_missing(targets: Sequence[str], tables: Mapping[Path, Sequence[tuple[int, Sequence[str]]]]) -> None:
    """No label reads as a missing value where all others are numbers, or booleans.

    ``tables``: file -> (number, targets) of each of its rows. Raises DataError for the first such label.
    """
    for at, name in enumerate(targets):
        cells = {row[at] for rows in tables.values() for _, row in rows if row[at].strip()}
        words = {text for text in cells if _reads_as_missing(text)}
        others = {canonical(text) for text in cells - words}
        if not words or not others or not all(other in _TRUTHS or _is_number(other) for other in others):
            continue
        kind = "booleans" if others <= _TRUTHS else "numbers"
        path, row, text = next(
            (path, row, labels[at])
            for path, rows in tables.items()
            for row, labels in rows
            if labels[at] in words
        )
        raise DataError(
            f"{path}, row {row}, column {name!r}: {text!r} is a missing value, for all other labels are "
            f"{kind}. Leave the cell empty in train.csv, or remove the row from all other tables; if it is a "
            "class, give it another name"
        )


def _reads_as_missing(text: str) -> bool:
    text = text.strip()
    try:
        return text.casefold() in _WORDS or math.isnan(number(text))
    except ValueError:
        return False


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(number(text))
    except ValueError:
        return False
