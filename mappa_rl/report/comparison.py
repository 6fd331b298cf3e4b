"""Everything that ``comparison.html`` shows: groups of runs side by side, by the settings that differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mappa_rl.report.charts import ChartBlock, chart_blocks
from mappa_rl.report.culprits import Blame, blame
from mappa_rl.report.groups import Group
from mappa_rl.report.made import Made, made
from mappa_rl.report.quality import Quality, qualities
from mappa_rl.report.rows import Comparison, Row, cautions, comparisons, headline, pooled
from mappa_rl.report.tables import measures_caption


@dataclass(frozen=True, slots=True)
class Line:
    """A group in the first table: its settings, its seeds, and its pooled row, None without evaluations."""

    group: Group
    seeds: str
    row: Row | None


@dataclass(frozen=True, slots=True)
class ComparisonPage:
    """The whole page. ``keys`` are the settings in which the groups differ."""

    title: str
    subtitle: str
    keys: Sequence[str]
    lines: Sequence[Line]
    heading: str
    unfinished: Sequence[str]
    rows: Sequence[Row]
    quality: Sequence[Quality]
    quality_caption: str
    comparisons: Sequence[Comparison]
    cautions: Sequence[str]
    charts: Sequence[ChartBlock]
    blame: Blame | None
    made: Made


def make_comparison(groups: Sequence[Group], page: Path) -> ComparisonPage:
    """Gather what the comparison of these groups shows. ``page``: the file that it will be written to."""
    runs = [run for group in groups for run in group.runs]
    rows, against = headline(groups), comparisons(groups)
    heading = groups[0].heading
    first: dict[str, Row] = {}
    for row in pooled(rows):
        if not row.best:
            first.setdefault(row.label, row)
    tasks = ", ".join(dict.fromkeys(run.config.env.id for run in runs))
    return ComparisonPage(
        title=f"{tasks}: {len(groups)} settings compared",
        subtitle=f"{len(runs)} runs in {len(groups)} groups by {', '.join(groups[0].values)}",
        keys=list(groups[0].values),
        lines=[
            Line(group, ", ".join(str(run.seed) for run in group.runs), first.get(group.label))
            for group in groups
        ],
        heading=heading,
        unfinished=[str(run.folder) for run in runs if run.summary is None],
        rows=rows,
        quality=qualities(rows),
        quality_caption=measures_caption(rows),
        comparisons=against,
        cautions=cautions([*rows, *(row for found in against for row in found.rows)]),
        charts=chart_blocks(groups),
        blame=blame([(group.label, "after", group.runs) for group in groups], page),
        made=made(groups, page),
    )
