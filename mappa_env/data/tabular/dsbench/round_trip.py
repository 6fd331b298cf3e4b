"""What a column becomes when pandas reads and writes it, as the programs of most agents do."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence


def lost(column: Sequence[str], meant: Callable[[str], str]) -> tuple[str, str] | None:
    """A cell that does not mean the same after a round trip, and what it has become; None if all do.

    The first one that is not written in digits alone, if there is one: for its sake pandas also writes ``7``
    as ``7.0``.
    """
    pairs = zip(column, round_trip(column), strict=True)
    found = [(text, back) for text, back in pairs if text != back and meant(text) != meant(back)]
    return min(found, key=lambda pair: pair[0].isdigit(), default=None)


def round_trip(cells: Sequence[str]) -> list[str]:
    """The ``cells`` of a column after ``read_csv`` and ``to_csv``, with pandas' own defaults.

    ``NA`` comes back empty, and ``0007`` as ``7`` if all cells are numbers.
    """
    import pandas as pd

    there, back = io.StringIO(newline=""), io.StringIO(newline="")
    writer = csv.writer(there, lineterminator="\n")
    writer.writerows([["cell", "end"], *([cell, "1"] for cell in cells)])
    there.seek(0)
    pd.read_csv(there, low_memory=False).to_csv(back, index=False)
    back.seek(0)
    return [row[0] for row in csv.reader(back)][1:]
