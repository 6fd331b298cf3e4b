"""The lines of a report's tables: before and after by group and seed, and groups against each other."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from mappa_env.statistics.intervals import student
from mappa_rl.evaluation.arms import compare
from mappa_rl.evaluation.results import Result
from mappa_rl.evaluation.summary import Interval, Measure
from mappa_rl.report.groups import Group
from mappa_rl.report.runs import RunData

FEW = 50
"""Fewer paired episodes than this get a warning."""


@dataclass(frozen=True, slots=True)
class OverSeeds:
    """Means of the seeds' own rates, with Student's t intervals over seeds; ``n`` counts seeds."""

    before: Interval
    after: Interval
    delta: Interval


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a table: an arm of one seed, or of all seeds of a group (``seed`` None).

    Its intervals are over episodes, or tasks if played again; ``over_seeds`` has those over seeds, None for a
    single one.
    """

    label: str
    arm: str
    seed: int | None
    before: Interval
    after: Interval
    delta: Interval
    temperature: float
    best: bool
    measures: Mapping[str, Measure]
    over_seeds: OverSeeds | None = None
    env: str = ""
    """One of ``eval.also``, which ``arm`` names too; empty: the run's own environment."""

    @property
    def block(self) -> tuple[str, str, str]:
        """What the pooled line and the lines of its seeds have in common."""
        return self.label, self.env, "best" if self.best else self.arm


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two groups after training, on the same tasks with the same seeds; ``rows`` go from first to second.

    Without rows, ``problem`` says why the groups cannot be compared.
    """

    first: str
    second: str
    rows: Sequence[Row]
    problem: str = ""


@dataclass(frozen=True, slots=True)
class _Pair:
    """Two evaluations of one seed's tasks at one temperature."""

    run: RunData
    temperature: float
    before: Sequence[Result]
    after: Sequence[Result]


def headline(groups: Sequence[Group]) -> list[Row]:
    """Before and after of every group and arm: pooled over the seeds first, then seed by seed."""
    rows = []
    for group in groups:
        for env in dict.fromkeys(["", *(env for run in group.runs for env in run.also)]):
            for fixed in _temperatures(group.runs):
                rows.extend(_rows(group.label, fixed, _pairs(group.runs, fixed, env), env))
    return rows


def _pairs(runs: Sequence[RunData], fixed: float | None, env: str) -> list[_Pair]:
    found = []
    for run in runs:
        results = run.also.get(env, {}) if env else run.results
        t = run.best if fixed is None else fixed
        if t is not None and ("before", t) in results and ("after", t) in results:
            found.append(_Pair(run, t, results["before", t], results["after", t]))
    return found


def pooled(rows: Sequence[Row]) -> list[Row]:
    """The pooled line of every block, or the only line of a block with one seed."""
    several = {row.block for row in rows if row.seed is None}
    return [row for row in rows if row.seed is None or row.block not in several]


def comparisons(groups: Sequence[Group]) -> list[Comparison]:
    """Held-out success after training of every two groups, paired by seed, task and episode."""
    return [_comparison(first, second) for first, second in itertools.combinations(groups, 2)]


def cautions(rows: Sequence[Row]) -> list[str]:
    """What a reader must know about intervals of few episodes, and about those without width."""
    found = []
    for row in pooled(rows):
        n, place = row.delta.n, " ".join(part for part in (row.label, row.arm) if part)
        if row.delta.low == row.delta.high:
            found.append(
                f"{place}: every pair of episodes differs by the same amount, so the bootstrap interval has "
                f"no width. With n={n}, changes of up to about {100 * min(1.0, 3 / n):.0f} points can go "
                "unseen."
            )
        elif n < FEW:
            found.append(f"{place}: {n} paired episodes are few; the interval is only approximate.")
    return found


def _comparison(first: Group, second: Group) -> Comparison:
    others = {run.seed: run for run in first.runs}
    shared = [(others[run.seed], run) for run in second.runs if run.seed in others]
    if not shared:
        return Comparison(first.label, second.label, (), "they have no seed in common")
    rows: list[Row] = []
    for fixed in _temperatures([run for pair in shared for run in pair]):
        pairs = [pair for old, new in shared if (pair := _after(old, new, fixed)) is not None]
        rows.extend(_rows(f"{second.label} - {first.label}", fixed, pairs)[:1])
    return Comparison(
        first.label,
        second.label,
        rows,
        "" if rows else "they have no evaluated episode (seed, task and index) in common",
    )


def _after(old: RunData, new: RunData, fixed: float | None) -> _Pair | None:
    """The episodes that both runs played after training; None if there are none.

    For the best temperature (``fixed`` None) both warm starts must have the same one.
    """
    t = new.best if fixed is None else fixed
    if t is None or (fixed is None and old.best != t):
        return None
    before = {(row.index, row.task_id): row for row in old.results.get(("after", t), ())}
    after = {(row.index, row.task_id): row for row in new.results.get(("after", t), ())}
    both = sorted(before.keys() & after.keys())
    return _Pair(new, t, [before[key] for key in both], [after[key] for key in both]) if both else None


def _temperatures(runs: Sequence[RunData]) -> list[float | None]:
    """The temperatures that are always evaluated, highest first, and None for each warm start's best."""
    return [*sorted({t for run in runs for t in run.config.eval.temperatures}, reverse=True), None]


def _rows(label: str, fixed: float | None, pairs: Sequence[_Pair], env: str = "") -> list[Row]:
    best = fixed is None

    def row(members: Sequence[_Pair], seed: int | None) -> Row:
        before = [result for pair in members for result in pair.before]
        after = [result for pair in members for result in pair.after]
        arm = compare(before, after, best=best, samples=members[0].run.config.eval.group_size)
        shown = ", ".join(dict.fromkeys(str(pair.temperature) for pair in members))
        place = f"{env} " if env else ""
        return Row(
            label=label,
            arm=f"{place}best T={shown}" if best else f"{place}T={shown}",
            env=env,
            seed=seed,
            before=arm.before,
            after=arm.after,
            delta=arm.delta,
            temperature=members[0].temperature,
            best=best,
            measures=arm.measures,
        )

    single = [row([pair], pair.run.seed) for pair in pairs]
    if len(single) < 2:
        return single
    return [replace(row(pairs, None), over_seeds=_over_seeds(single)), *single]


def _over_seeds(rows: Sequence[Row]) -> OverSeeds:
    return OverSeeds(
        before=_student([row.before.mean for row in rows], 0.0),
        after=_student([row.after.mean for row in rows], 0.0),
        delta=_student([row.delta.mean for row in rows], -1.0),
    )


def _student(values: Sequence[float], least: float) -> Interval:
    """An interval that does not leave the possible values, ``least`` to 1."""
    found = student(values)
    return Interval(mean=found.mean, low=max(least, found.low), high=min(1.0, found.high), n=found.n)
