"""Tables on the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.box import SIMPLE_HEAD
from rich.table import Table

from mappa_rl.runs import Row
from mappa_rl.stopwatch import KINDS
from mappa_rl.summary import Interval, Measure, Summary

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


MEASURES = {
    "accuracy_fair": "accuracy (Fair)",
    "f1_fair": "F1 (Fair)",
    "rmse_fair": "RMSE (Fair), % of range",
}
FAIR_CAPTION = "a run without a valid submission counts as 0.5 accuracy, 0 F1, 50 % RMSE"
REPEATS_CAPTION = (
    "pass@k: one of k episodes of a task succeeds; maj@n: the most common of n answers is right, ties drawn; "
    "ties@n: share of tasks with a tie"
)


def measures_caption(rows: Sequence[Row]) -> str:
    """What the measures of these rows mean."""
    found = {key for row in rows for key in row.measures}
    parts = [FAIR_CAPTION] if found & MEASURES.keys() else []
    parts += [REPEATS_CAPTION] if found - MEASURES.keys() else []
    return "; ".join([*parts, "in brackets: 95 % intervals"])


def measure(value: Interval, signed: bool = False) -> str:
    """``0.713 [0.650, 0.771]``"""
    sign = "+" if signed else ""
    return f"{value.mean:{sign}.3f} [{value.low:{sign}.3f}, {value.high:{sign}.3f}]"


def measured(rows: Sequence[Row]) -> list[tuple[Row, str, Measure]]:
    """The Fair metrics, named, of the pooled lines, or of the only run's."""
    pooled = {row.group for row in rows if row.seed is None}
    shown = [row for row in rows if row.seed is None or row.group not in pooled]
    return [(row, MEASURES.get(key, key), found) for row in shown for key, found in row.measures.items()]


def measures_table(rows: Sequence[Row]) -> Table | None:
    """``measured`` as a table; None where there is nothing to show."""
    found = measured(rows)
    if not found:
        return None
    table = Table(
        title="held-out quality", title_justify="left", box=SIMPLE_HEAD,
        caption=measures_caption(rows), caption_justify="left",
    )  # fmt: skip
    several = len({row.variant for row, _, _ in found}) > 1
    for name in (*(["rewards"] if several else []), "temperature", "measure"):
        table.add_column(name, no_wrap=True)
    for name in ("episodes", "before", "after", "difference"):
        table.add_column(name, justify="right")
    for row, name, values in found:
        cells = [row.arm, name, f"{values.before.n:,}"]
        cells += [measure(values.before), measure(values.after), measure(values.delta, signed=True)]
        table.add_row(*([row.variant] if several else []), *cells)
    return table


def work_table(summary: Summary) -> Table:
    """The share of every phase's wall time, and of all, that went into each kind of work."""
    table = Table(
        title="wall time", title_justify="left", box=SIMPLE_HEAD, caption_justify="left",
        caption="sandbox and coach: what the run waited for; sandbox busy: also while it did something else",
    )  # fmt: skip
    table.add_column("phase", no_wrap=True)
    for name in ("seconds", *KINDS, "sandbox busy"):
        table.add_column(name, justify="right")
    everything = {kind: sum(cells.get(kind, 0.0) for cells in summary.work.values()) for kind in KINDS}
    busy = sum(cells.get("sandbox", 0.0) for cells in summary.busy.values())
    for phase, cells in summary.work.items():
        _work_row(table, phase, cells, summary.busy.get(phase, {}).get("sandbox", 0.0))
    table.add_section()
    _work_row(table, "all", everything, busy, style="bold")
    return table


def _work_row(table: Table, name: str, cells: Mapping[str, float], busy: float, style: str = "") -> None:
    wall = sum(cells.values())
    shares = [cells.get(kind, 0.0) / wall if wall else 0.0 for kind in KINDS]
    table.add_row(
        name, f"{wall:,.0f}", *(f"{share:.1%}" for share in shares), f"{busy / wall if wall else 0.0:.1%}",
        style=style,
    )  # fmt: skip
