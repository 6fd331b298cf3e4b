"""The report as tables for a terminal."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from rich.table import Table

from mappa_env.benchmarking.sandbox.backends import FLOOR
from mappa_env.benchmarking.sandbox.measurement import Plan
from mappa_env.benchmarking.sandbox.report import BASELINE, Report, isolations, p50, p95, rate

CAPTION = f"speed-up: p50 of {BASELINE} / p50;  × {FLOOR}: p50 / p50 of {FLOOR} (a bare warm fork)"


def tables(plan: Plan, report: Report) -> Iterator[Table]:
    """One table per action, then one for the first action. ``-``: not measured."""
    kinds = isolations(report.slices)
    for action in plan.actions:
        table = Table(title=f"{action.name}: {action.title}", caption=CAPTION)
        for column in ("in flight", "sandbox", "p50 ms", "p95 ms", "per s", "speed-up", "× floor", "actions"):
            table.add_column(column, justify="left" if column == "sandbox" else "right")
        for in_flight in plan.in_flight:
            for backend in plan.backends:
                cell = (backend, action.name, in_flight)
                kind = kinds.get(backend, backend)
                actions = sum(len(found.times) for found in report.good(cell))
                table.add_row(
                    str(in_flight),
                    backend if kind in (backend, "none") else f"{backend} ({kind})",
                    number(report.values(cell, p50)),
                    number(report.values(cell, p95)),
                    number(report.values(cell, rate)),
                    number(report.speed_up(cell)),
                    number(report.over_floor(cell)),
                    str(actions or "-"),
                )
            table.add_section()
        yield table
    if report.firsts:
        table = Table(title="a new process: gym.make('mappa/DSBench-v0'), reset, first action")
        for column in ("sandbox", "gym.make s", "gym.make to answer s", "start to answer s", "repeats"):
            table.add_column(column, justify="left" if column == "sandbox" else "right")
        for backend, firsts in report.firsts.items():
            medians = [number(list(column)) for column in zip(*firsts, strict=True)]
            table.add_row(backend, *medians, str(len(firsts)))
        yield table


def number(repeats: list[float]) -> str:
    """The median with three significant digits, or a dash."""
    if not repeats:
        return "-"
    value = statistics.median(repeats)
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
