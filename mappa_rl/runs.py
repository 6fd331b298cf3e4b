"""Runs as a reader sees them, finished or not: what lies in their folders, and which belong together."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mappa_rl.config import Config, load_config
from mappa_rl.errors import RunError
from mappa_rl.results import Result, load_results
from mappa_rl.sinks import read_metrics
from mappa_rl.stopwatch import KINDS
from mappa_rl.summary import Arm, Interval, Measure, Summary, compare, read_summary

CONFIG = "config.yaml"


@dataclass(frozen=True, slots=True)
class RunData:
    """One run: one folder, one seed. ``summary`` is None while it is unfinished."""

    folder: Path
    config: Config
    summary: Summary | None
    metrics: Sequence[Mapping[str, Any]]
    results: Mapping[tuple[str, float], Sequence[Result]]

    @property
    def seed(self) -> int:
        return self.config.run.seed

    @property
    def variant(self) -> str:
        """The shaping, by its name: what a comparison of runs varies."""
        shaping = self.config.env.shaping
        return shaping if isinstance(shaping, str) else str(shaping.get("name", json.dumps(shaping)))

    @property
    def best(self) -> float | None:
        """The warm start's best temperature."""
        arms = self.summary.arms.values() if self.summary else ()
        return next((arm.temperature for arm in arms if arm.best), None)


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the headline table: an arm of one seed, or of all of them (``seed`` None)."""

    variant: str
    arm: str
    seed: int | None
    before: Interval
    after: Interval
    delta: Interval
    temperature: float
    best: bool
    measures: Mapping[str, Measure]

    @property
    def group(self) -> tuple[str, str]:
        """What the pooled line and the lines of its seeds have in common."""
        return self.variant, "best" if self.best else self.arm


@dataclass(frozen=True, slots=True)
class Pair:
    """Two evaluations of one run's tasks and seeds at one temperature."""

    run: RunData
    temperature: float
    before: Sequence[Result]
    after: Sequence[Result]


def find_runs(folders: Sequence[Path]) -> list[Path]:
    """The run folders given, with every folder that holds runs replaced by them. Raises RunError."""
    found: list[Path] = []
    for folder in folders:
        if (folder / CONFIG).is_file():
            found.append(folder)
            continue
        inside = sorted(path.parent for path in folder.glob(f"*/{CONFIG}"))
        if not inside:
            raise RunError(f"{folder} holds no run: there is no {CONFIG} in it, nor in a folder inside it.")
        found.extend(inside)
    return found


def read_run(folder: Path) -> RunData:
    """Everything of one run but its traces. Raises RunError, ConfigError."""
    if not (folder / CONFIG).is_file():
        raise RunError(f"{folder} is not a run: it has no {CONFIG}.")
    return RunData(
        folder=folder,
        config=load_config(folder / CONFIG),
        summary=read_summary(folder),
        metrics=read_metrics(folder),
        results=load_results(folder),
    )


def headline(runs: Sequence[RunData]) -> list[Row]:
    """Before and after of every variant and arm: pooled over the seeds first, then seed by seed."""
    rows = []
    for variant in variants(runs):
        members = [run for run in runs if run.variant == variant]
        for fixed in _temperatures(members):
            pairs = [
                Pair(run, t, run.results["before", t], run.results["after", t])
                for run in members
                if (t := run.best if fixed is None else fixed) is not None
                and ("before", t) in run.results
                and ("after", t) in run.results
            ]
            rows.extend(_rows(variant, fixed, pairs))
    return rows


def versus_first(runs: Sequence[RunData]) -> list[Row]:
    """Held-out success after training, every variant against the first: paired by seed and task, pooled."""
    names = variants(runs)
    rows = []
    for variant in names[1:]:
        for fixed in _temperatures(runs):
            pairs = []
            for run in (run for run in runs if run.variant == variant):
                other = next((r for r in runs if r.variant == names[0] and r.seed == run.seed), None)
                t = run.best if fixed is None else fixed
                if other is None or t is None or other.best != run.best:
                    continue
                if ("after", t) in run.results and ("after", t) in other.results:
                    pairs.append(Pair(run, t, other.results["after", t], run.results["after", t]))
            rows.extend(_rows(f"{variant} - {names[0]}", fixed, pairs)[:1])
    return rows


def variants(runs: Sequence[RunData]) -> list[str]:
    """The variants there are; process rewards come first, as what the others are compared with."""
    return sorted(dict.fromkeys(run.variant for run in runs), key=lambda name: name != "process")


def combine(runs: Sequence[RunData]) -> Summary:
    """The summary of finished runs of several seeds (and variants) together. Raises RunError."""
    done = [run.summary for run in runs if run.summary is not None]
    if not done or len(done) < len(runs):
        missing = [str(run.folder) for run in runs if run.summary is None]
        raise RunError(f"these runs are unfinished: {', '.join(missing)}.")
    several = len(variants(runs)) > 1
    rows = headline(runs)
    pooled = {row.group for row in rows if row.seed is None}
    arms = {}
    for row in rows:
        if row.seed is None or row.group not in pooled:
            name = " ".join([runs[0].config.env.id, *([row.variant] if several else []), row.arm])
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
        shares={kind: seconds / sum(spent.values()) for kind, seconds in spent.items()} if work else {},
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


def _temperatures(runs: Sequence[RunData]) -> list[float | None]:
    """The temperatures that are always evaluated, highest first, and None for each warm start's best."""
    return [*sorted({t for run in runs for t in run.config.eval.temperatures}, reverse=True), None]


def _rows(variant: str, fixed: float | None, pairs: Sequence[Pair]) -> list[Row]:
    best = fixed is None

    def row(members: Sequence[Pair], seed: int | None) -> Row:
        before = [result for pair in members for result in pair.before]
        after = [result for pair in members for result in pair.after]
        arm = compare(before, after, best=best, samples=members[0].run.config.eval.samples)
        shown = ", ".join(dict.fromkeys(str(pair.temperature) for pair in members))
        name = f"best T={shown}" if best else f"T={shown}"
        return Row(
            variant, name, seed, arm.before, arm.after, arm.delta, members[0].temperature, best, arm.measures
        )  # fmt: skip

    single = [row([pair], pair.run.seed) for pair in pairs]
    return [row(pairs, None), *single] if len(pairs) > 1 else single
