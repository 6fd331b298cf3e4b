"""Prints tables of which no cell is cut."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

_ANY = 100_000
"""Columns that are enough for every table."""


def print_whole(table: Table) -> None:
    """Print ``table``: in a terminal long cells are folded, anywhere else it is as wide as it must be."""
    for column in table.columns:
        column.overflow = "fold"
    console = Console(highlight=False)
    if not console.is_terminal:
        wide = Console(width=_ANY).measure(table).maximum
        console = Console(width=max(wide, console.width), highlight=False)
    console.print(table)
