"""Everything that ``report.html`` shows, as typed records; the template only lays it out."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mappa_env.json_and_yaml import read_json
from mappa_env.viewer.page import VIEWER
from mappa_rl.errors import RunError
from mappa_rl.evaluation.summary import Fault
from mappa_rl.report.charts import ChartBlock, chart_blocks, topic_rates
from mappa_rl.report.culprits import PHASES, Blame, blame
from mappa_rl.report.figures import before_after
from mappa_rl.report.groups import Group
from mappa_rl.report.links import to_file
from mappa_rl.report.made import Made, duration, made
from mappa_rl.report.quality import Quality, qualities
from mappa_rl.report.rows import Row, cautions, headline, pooled
from mappa_rl.report.runs import RunData
from mappa_rl.report.showcase import ShownPair, showcase
from mappa_rl.report.style import svg
from mappa_rl.report.tables import measures_caption


@dataclass(frozen=True, slots=True)
class Results:
    """The headline number, the tables under it, and what to know about them."""

    headline: Row | None
    """The pooled line at the highest fixed temperature; None before the evaluation after training."""
    rows: Sequence[Row]
    quality: Sequence[Quality]
    quality_caption: str
    cautions: Sequence[str]
    calibration: Mapping[int, Mapping[str, float]]
    """Seed -> temperature -> success of the warm start on training tasks."""
    topics: str
    """Figure of success by topic, as markup; empty for less than two topics."""
    topics_caption: str


@dataclass(frozen=True, slots=True)
class Habits:
    """The faults of the demonstrated team. ``cells``: pairs of topic and role; ``success``: its own rate."""

    faults: Sequence[Fault]
    habits: int
    cells: int
    success: float | None


@dataclass(frozen=True, slots=True)
class Page:
    """The whole report of one group of runs, which differ in their seeds only."""

    title: str
    subtitle: str
    unfinished: Sequence[str]
    results: Results
    habits: Habits
    curve: ChartBlock | None
    """Success over training with the evaluations, which stands beside the headline."""
    charts: Sequence[ChartBlock]
    blame: Blame | None
    pairs: Sequence[ShownPair]
    made: Made
    viewer: str
    """Where the links to episodes of the first run lead."""
    folder: str


def make_page(group: Group, page: Path) -> Page:
    """Gather what the report of a group shows. ``page``: the file that it will be written to."""
    runs, first = group.runs, group.runs[0]
    charts = chart_blocks([group])
    wall = sum(run.summary.wall_seconds for run in runs if run.summary is not None)
    facts = [
        _made_with(first),
        f"seed{'' if len(runs) == 1 else 's'} {', '.join(str(run.seed) for run in runs)}",
        f"{duration(wall)} of work",
    ]
    return Page(
        title=f"{first.config.env.id}: a team before and after training",
        subtitle=" · ".join(facts),
        unfinished=[str(run.folder) for run in runs if run.summary is None],
        results=_results(group),
        habits=_habits(runs),
        curve=next((chart for chart in charts if chart.name == "success"), None),
        charts=[chart for chart in charts if chart.name != "success"],
        blame=blame([(phase, phase, runs) for phase in PHASES], page),
        pairs=showcase(first.folder, page),
        made=made([group], page),
        viewer=to_file(page, first.folder / VIEWER),
        folder=str(first.folder),
    )


def _made_with(run: RunData) -> str:
    shaping = run.config.env.shaping
    name = shaping if isinstance(shaping, str) else str(shaping.get("name", json.dumps(shaping)))
    return f"{name} rewards · {run.config.algo.name} ({run.config.algo.mode})"


def _results(group: Group) -> Results:
    rows = headline([group])
    rates, temperature = topic_rates(group)
    return Results(
        headline=next((row for row in pooled(rows) if not row.best), None),
        rows=rows,
        quality=qualities(rows),
        quality_caption=measures_caption(rows),
        cautions=cautions(rows),
        calibration={
            run.seed: run.summary.calibration for run in group.runs if run.summary and run.summary.calibration
        },
        topics=svg(before_after(rates), "held-out") if len(rates) > 1 else "",
        topics_caption=f"Held-out success by topic at T={temperature}, all seeds.",
    )


def _habits(runs: Sequence[RunData]) -> Habits:
    faults = next((run.summary.faults for run in runs if run.summary is not None), [])
    topics = {result.topic for run in runs for rows in run.results.values() for result in rows}
    return Habits(
        faults=faults,
        habits=sum(fault.topic != "*" for fault in faults),
        cells=len(topics) * len({fault.role for fault in faults if fault.topic == "*"}),
        success=_demonstrated(runs[0]),
    )


def _demonstrated(run: RunData) -> float | None:
    """Success of the demonstrated team, if the warm start recorded it."""
    folder = Path(run.config.warmstart.path) if run.config.warmstart.path else run.folder / "warmstart"
    path = folder / "demonstrations.json"
    try:
        return float(read_json(path.read_bytes())["success"]) if path.is_file() else None
    except (ValueError, KeyError, TypeError) as error:
        raise RunError(f"{path} is damaged ({error!r}): remove it to leave its figure out.") from None
