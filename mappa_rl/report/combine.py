"""One summary of several finished runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from mappa_rl.errors import RunError
from mappa_rl.evaluation.summary import Arm, Summary
from mappa_rl.report.groups import group_runs
from mappa_rl.report.rows import headline, pooled
from mappa_rl.report.runs import RunData
from mappa_rl.telemetry.stopwatch import KINDS


def combine(runs: Sequence[RunData]) -> Summary:
    """Return one summary of several finished runs. Raises RunError if a run is unfinished."""
    done = [run.summary for run in runs if run.summary is not None]
    if not done or len(done) < len(runs):
        missing = [str(run.folder) for run in runs if run.summary is None]
        raise RunError(f"these runs are unfinished: {', '.join(missing)}.")
    arms = {}
    for row in pooled(headline(group_runs(runs))):
        env = "" if row.env else runs[0].config.env.id
        name = " ".join(part for part in (env, row.label, row.arm) if part)
        arms[name] = Arm(
            temperature=row.temperature,
            best=row.best,
            before=row.before,
            after=row.after,
            delta=row.delta,
            measures=dict(row.measures),
        )
    phases: dict[str, float] = {}
    for summary in done:
        for name, seconds in summary.phases.items():
            phases[name] = phases.get(name, 0.0) + seconds
    work = _added(summary.work for summary in done)
    spent = {kind: sum(cells.get(kind, 0.0) for cells in work.values()) for kind in KINDS}
    return Summary(
        arms=arms,
        seeds=sorted({seed for summary in done for seed in summary.seeds}),
        episodes=sum(summary.episodes for summary in done),
        wall_seconds=sum(summary.wall_seconds for summary in done),
        phases=phases,
        work=work,
        busy=_added(summary.busy for summary in done),
        fractions={kind: seconds / sum(spent.values()) for kind, seconds in spent.items()} if work else {},
        versions=done[0].versions,
        faults=done[0].faults,
        config=done[0].config,
    )


def _added(parts: Iterable[Mapping[str, Mapping[str, float]]]) -> dict[str, dict[str, float]]:
    """Phase -> kind -> seconds, of several runs together."""
    sums: dict[str, dict[str, float]] = {}
    for part in parts:
        for phase, cells in part.items():
            mine = sums.setdefault(phase, {})
            for kind, seconds in cells.items():
                mine[kind] = mine.get(kind, 0.0) + seconds
    return sums
