"""Tables on the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from mappa_rl.evaluation.summary import Interval, Measure, Summary
from mappa_rl.report.groups import Group
from mappa_rl.report.rows import Comparison, Row, cautions, comparisons, headline, pooled
from mappa_rl.telemetry.stopwatch import KINDS

CAPTION = (
    "in brackets: 95 % intervals, over episodes (tasks, if played again), or over so many seeds "
    "(Student's t); "
    "best T: the warm start's best temperature, calibrated on training tasks"
)

MANY = "Each interval holds with 95 % alone; of several comparisons, one in twenty excludes 0 by chance."


def rate(value: Interval) -> str:
    """Format a rate as ``37.0 % [33.1, 41.0]``."""
    return f"{100 * value.mean:.1f} % [{100 * value.low:.1f}, {100 * value.high:.1f}]"


def points(value: Interval) -> str:
    """Format a difference in percentage points as ``+53.0 [47.2, 58.9]``."""
    return f"{100 * value.mean:+.1f} [{100 * value.low:+.1f}, {100 * value.high:+.1f}]"


def report_tables(groups: Sequence[Group]) -> list[Table | Text]:
    """Everything that ends a command on the terminal: results, other measures, comparisons, cautions.

    One group is shown seed by seed; several, pooled.
    """
    heading = groups[0].heading if len(groups) > 1 else ""
    rows, against = headline(groups), comparisons(groups)
    shown: list[Table | Text] = [headline_table(pooled(rows) if heading else rows, heading)]
    quality = measures_table(rows, heading)
    if quality is not None:
        shown.append(quality)
    shown.extend(
        comparison_table(found) if found.rows else Text(f"{found.second} and {found.first}: {found.problem}.")
        for found in against
    )
    if len(against) > 1:
        shown.append(Text(MANY))
    compared = [row for found in against for row in found.rows]
    return shown + [Text(text) for text in cautions([*rows, *compared])]


def headline_table(rows: Sequence[Row], heading: str = "") -> Table:
    """Before and after, pooled and by seed, with 95 % intervals.

    ``heading`` is the column head over the groups' labels; empty for one group.
    """
    return _success_table(rows, "held-out success", heading, ("before", "after"))


def comparison_table(comparison: Comparison) -> Table:
    """Two groups after training; the difference is second minus first."""
    names = (comparison.first, comparison.second)
    return _success_table(comparison.rows, "held-out success after training", "", names)


def _success_table(rows: Sequence[Row], title: str, heading: str, columns: tuple[str, str]) -> Table:
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, caption=CAPTION, caption_justify="left")
    for name in (*([heading] if heading else []), "temperature", "seed"):
        table.add_column(name, no_wrap=name != heading)
    for name in ("episodes", *columns, "difference (points)"):
        table.add_column(name, justify="right")
    last = None
    for row in rows:
        if last is not None and row.block != last:
            table.add_section()
        last = row.block
        label = [row.label] if heading else []
        cells = [row.arm, "all" if row.seed is None else str(row.seed), f"{row.delta.n:,}"]
        cells += [rate(row.before), rate(row.after), points(row.delta)]
        table.add_row(*label, *cells, style="bold" if row.seed is None else "")
        if (over := row.over_seeds) is not None:
            cells = [row.arm, f"over {over.delta.n}", ""]
            table.add_row(*label, *cells, rate(over.before), rate(over.after), points(over.delta))
    return table


MEASURES = {
    "accuracy_fair": "accuracy (Fair)",
    "f1_fair": "F1 (Fair)",
    "rmse_fair": "RMSE (Fair), % of range",
}
FAIR_CAPTION = "a run without a valid submission counts as 0.5 accuracy, 0 F1, 50 % RMSE"
REPEATS_CAPTION = (
    "pass@k: one of k episodes of a task succeeds; maj@n: the most common of n answers is right, ties drawn; "
    "ties@n: fraction of tasks with a tie"
)


def measures_caption(rows: Sequence[Row]) -> str:
    """What the measures of these rows mean."""
    found = {key for row in rows for key in row.measures}
    parts = [FAIR_CAPTION] if found & MEASURES.keys() else []
    parts += [REPEATS_CAPTION] if found - MEASURES.keys() else []
    return "; ".join([*parts, "in brackets: 95 % intervals"])


def measure(value: Interval, signed: bool = False) -> str:
    """Format a measure as ``0.713 [0.650, 0.771]``."""
    sign = "+" if signed else ""
    return f"{value.mean:{sign}.3f} [{value.low:{sign}.3f}, {value.high:{sign}.3f}]"


def measured(rows: Sequence[Row]) -> list[tuple[Row, str, Measure]]:
    """(row, name, measure) of the pooled lines, or of the only run's."""
    return [
        (row, MEASURES.get(key, key), found) for row in pooled(rows) for key, found in row.measures.items()
    ]


def measures_table(rows: Sequence[Row], heading: str = "") -> Table | None:
    """``measured`` as a table; None if there is nothing to show."""
    found = measured(rows)
    if not found:
        return None
    table = Table(
        title="held-out quality",
        title_justify="left",
        box=SIMPLE_HEAD,
        caption=measures_caption(rows),
        caption_justify="left",
    )
    for name in (*([heading] if heading else []), "temperature", "measure"):
        table.add_column(name, no_wrap=name != heading)
    for name in ("episodes", "before", "after", "difference"):
        table.add_column(name, justify="right")
    for row, name, values in found:
        cells = [row.arm, name, f"{values.before.n:,}"]
        cells += [measure(values.before), measure(values.after), measure(values.delta, signed=True)]
        table.add_row(*([row.label] if heading else []), *cells)
    return table


def work_table(summary: Summary) -> Table:
    """The fraction of each phase's wall time, and of the total, that went into each kind of work."""
    table = Table(
        title="wall time",
        title_justify="left",
        box=SIMPLE_HEAD,
        caption_justify="left",
        caption="sandbox and coach: time the run waited for them; sandbox busy: also while it did other work",
    )
    table.add_column("phase", no_wrap=True)
    for name in ("seconds", *KINDS, "sandbox busy"):
        table.add_column(name, justify="right")
    everything = {kind: sum(cells.get(kind, 0.0) for cells in summary.work.values()) for kind in KINDS}
    busy = sum(cells.get("sandbox", 0.0) for cells in summary.busy.values())
    for phase, cells in summary.work.items():
        _work_row(table, phase, cells, summary.busy.get(phase, {}).get("sandbox", 0.0))
    table.add_section()
    _work_row(table, "total", everything, busy, style="bold")
    return table


def _work_row(table: Table, name: str, cells: Mapping[str, float], busy: float, style: str = "") -> None:
    wall = sum(cells.values())
    fractions = [cells.get(kind, 0.0) / wall if wall else 0.0 for kind in KINDS]
    table.add_row(
        name,
        f"{wall:,.0f}",
        *(f"{fraction:.1%}" for fraction in fractions),
        f"{busy / wall if wall else 0.0:.1%}",
        style=style,
    )
