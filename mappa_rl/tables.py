"""Tables on the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.table import Table

from mappa_rl.runs import Row
from mappa_rl.summary import Interval

CAPTION = (
    "in brackets: 95 % intervals; best T: the warm start's own best temperature, found on training tasks"
)


def share(value: Interval) -> str:
    """``37.0 % [33.1, 41.0]``"""
    return f"{100 * value.mean:.1f} % [{100 * value.low:.1f}, {100 * value.high:.1f}]"


def points(value: Interval) -> str:
    """``+53.0 [47.2, 58.9]``, in percentage points"""
    return f"{100 * value.mean:+.1f} [{100 * value.low:+.1f}, {100 * value.high:+.1f}]"


def headline_table(
    rows: Sequence[Row], title: str = "held-out success", columns: tuple[str, str] = ("before", "after")
) -> Table:
    """Two sides, by default before and after, pooled and by seed, with 95 % intervals."""
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, caption=CAPTION, caption_justify="left")
    several = len({row.variant for row in rows}) > 1 or columns != ("before", "after")
    if several:
        table.add_column("rewards", no_wrap=True)
    for name in ("temperature", "seed"):
        table.add_column(name, no_wrap=True)
    for name in ("episodes", *columns, "difference (points)"):
        table.add_column(name, justify="right")
    last = None
    for row in rows:
        if last is not None and row.group != last:
            table.add_section()
        last = row.group
        cells = [row.arm, "all" if row.seed is None else str(row.seed), f"{row.delta.n:,}"]
        cells += [share(row.before), share(row.after), points(row.delta)]
        table.add_row(*([row.variant] if several else []), *cells, style="bold" if row.seed is None else "")
    return table
