"""Measures of quality beside success, formatted for a page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mappa_rl.report.rows import Row
from mappa_rl.report.tables import measure, measured


@dataclass(frozen=True, slots=True)
class Quality:
    """One measure of one row, formatted."""

    row: Row
    name: str
    before: str
    after: str
    delta: str


def qualities(rows: Sequence[Row]) -> list[Quality]:
    """The measures of the pooled lines, or of the only run's."""
    return [
        Quality(row, name, measure(found.before), measure(found.after), measure(found.delta, signed=True))
        for row, name, found in measured(rows)
    ]
