"""Everything that ``report.html`` shows, as typed records; the template only lays it out."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mappa_rl.config.command_lines import CommandLine, read_commands
from mappa_rl.evaluation.summary import Fault
from mappa_rl.report.charts import ChartBlock, chart_blocks, topic_rates
from mappa_rl.report.culprits import Blame, blame
from mappa_rl.report.figures import before_after
from mappa_rl.report.groups import Group
from mappa_rl.report.rows import Comparison, Row, cautions, comparisons, headline, pooled
from mappa_rl.report.runs import RunData
from mappa_rl.report.showcase import ShownPair, showcase
from mappa_rl.report.style import svg
from mappa_rl.report.tables import measure, measured, measures_caption


@dataclass(frozen=True, slots=True)
class Quality:
    """One measure of one row, formatted."""

    row: Row
    name: str
    before: str
    after: str
    delta: str


@dataclass(frozen=True, slots=True)
class Results:
    """The headline numbers, the tables under them, and what to know about them."""

    headline: Sequence[Row]
    """The pooled lines at the highest fixed temperature, one per group."""
    rows: Sequence[Row]
    quality: Sequence[Quality]
    quality_caption: str
    comparisons: Sequence[Comparison]
    cautions: Sequence[str]
    calibration: Mapping[int, Mapping[str, float]]
    """Seed -> temperature -> success of the warm start on training tasks."""
    topics: str
    """Figure of the first group's success by topic, as markup."""
    topics_caption: str


@dataclass(frozen=True, slots=True)
class Habits:
    """The faults of the demonstrated team. ``cells``: pairs of topic and role; ``success``: its own rate."""

    faults: Sequence[Fault]
    habits: int
    cells: int
    success: float | None


@dataclass(frozen=True, slots=True)
class MadeRun:
    """How one run was made; figures are formatted, ``-`` while it is unfinished."""

    label: str
    folder: str
    seed: int
    group: str
    episodes: str
    wall: str
    phases: Mapping[str, str]
    fractions: Mapping[str, float]
    commands: Sequence[CommandLine]


@dataclass(frozen=True, slots=True)
class Page:
    """The whole report."""

    title: str
    subtitle: str
    heading: str
    """Column head over the groups' labels; empty for one group."""
    unfinished: Sequence[str]
    results: Results
    habits: Habits
    charts: Sequence[ChartBlock]
    blame: Blame | None
    pairs: Sequence[ShownPair]
    runs: Sequence[MadeRun]
    versions: Mapping[str, str]
    config: str

    @property
    def phases(self) -> list[str]:
        """Names of all runs' phases, in order."""
        return list(dict.fromkeys(name for run in self.runs for name in run.phases))


def make_page(groups: Sequence[Group]) -> Page:
    """Gather what the report of these groups shows."""
    runs = [run for group in groups for run in group.runs]
    first = runs[0]
    done = [run.summary for run in runs if run.summary is not None]
    seeds = list(dict.fromkeys(str(run.seed) for run in runs))
    wall = sum(summary.wall_seconds for summary in done)
    several = len(groups) > 1
    facts = [
        f"{len(groups)} groups by {groups[0].heading}" if several else _made_with(first),
        f"seed{'' if len(seeds) == 1 else 's'} {', '.join(seeds)}",
        f"{duration(wall)} of work",
    ]
    return Page(
        title=f"{first.config.env.id}: a team before and after training",
        subtitle=" · ".join(facts),
        heading=groups[0].heading if several else "",
        unfinished=[str(run.folder) for run in runs if run.summary is None],
        results=_results(groups),
        habits=_habits(runs),
        charts=chart_blocks(groups),
        blame=blame([run.folder for run in groups[0].runs]),
        pairs=showcase(first.folder),
        runs=[_made(run, group) for group in groups for run in group.runs],
        versions=done[0].versions if done else {},
        config=first.config.dump(),
    )


def duration(seconds: float) -> str:
    """Format seconds as ``75 s``, ``12 min 30 s`` or ``3 h 05 min``."""
    whole = round(seconds)
    if whole < 120:
        return f"{whole} s"
    if whole < 7200:
        return f"{whole // 60} min {whole % 60:02} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02} min"


def _made_with(run: RunData) -> str:
    shaping = run.config.env.shaping
    name = shaping if isinstance(shaping, str) else str(shaping.get("name", json.dumps(shaping)))
    return f"{name} rewards · {run.config.algo.name} ({run.config.algo.mode})"


def _results(groups: Sequence[Group]) -> Results:
    runs = [run for group in groups for run in group.runs]
    rows, against = headline(groups), comparisons(groups)
    rates, temperature = topic_rates(groups[0])
    of_group = f", {groups[0].label}" if groups[0].label else ""
    fixed = [row for row in pooled(rows) if not row.best]
    top: dict[str, Row] = {}
    for row in fixed:
        top.setdefault(row.label, row)
    return Results(
        headline=list(top.values()),
        rows=rows,
        quality=[
            Quality(row, name, measure(m.before), measure(m.after), measure(m.delta, signed=True))
            for row, name, m in measured(rows)
        ],
        quality_caption=measures_caption(rows),
        comparisons=against,
        cautions=cautions([*rows, *(row for comparison in against for row in comparison.rows)]),
        calibration={
            run.seed: run.summary.calibration for run in runs if run.summary and run.summary.calibration
        },
        topics=svg(before_after(rates), "held-out") if rates else "",
        topics_caption=f"Held-out success by topic at T={temperature}{of_group}, all seeds.",
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
    return float(json.loads(path.read_bytes())["success"]) if path.is_file() else None


def _made(run: RunData, group: Group) -> MadeRun:
    summary = run.summary
    return MadeRun(
        label=", ".join(part for part in (group.label, f"seed {run.seed}") if part),
        folder=run.folder.name,
        seed=run.seed,
        group=group.label,
        episodes=f"{summary.episodes:,}" if summary else "-",
        wall=duration(summary.wall_seconds) if summary else "-",
        phases={name: duration(spent) for name, spent in summary.phases.items()} if summary else {},
        fractions=summary.fractions if summary else {},
        commands=read_commands(run.folder),
    )
