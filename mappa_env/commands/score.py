"""``mappa-env score``: scores results on a benchmark by the benchmark's own measures."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from mappa_env.commands._shared import check_target, command, command_group, write_json
from mappa_env.data.tabular import dsbench
from mappa_env.data.tabular.dsbench.scoring import Report, score_folder
from mappa_env.envs.tables import print_whole
from mappa_env.errors import DataError, DataMissingError
from mappa_env.types import Task


def add(commands: Any) -> None:
    """Add the group ``score`` to ``commands``."""
    group = command_group(commands, "score", "score results by a benchmark's own measures")
    parser = command(
        group,
        "dsbench",
        run_dsbench,
        "RPG and completion rate of submissions or result tables; exit status 1 if gains are not known",
    )
    parser.add_argument(
        "folder", type=Path, help="submissions, a model's result table, or an archive of tables"
    )
    parser.add_argument("--data", metavar="PATH", help="the release (default: the one that was added)")
    parser.add_argument("--tables", type=Path, metavar="PATH", help="the folder with GT and baseline")
    parser.add_argument("--each", action="store_true", help="print every competition")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the figures here")


def run_dsbench(args: argparse.Namespace) -> int:
    """Print a table with a row per model. Returns 1 if a total lacks gains that nobody knows, else 0.

    Raises DataMissingError, DataError.
    """
    check_target("--json", args.json)
    reports = score_folder(args.folder, Data(args.data).task, args.tables)
    console = Console()
    print_whole(_summary(reports))
    for report in reports:
        if report.no_gain:
            console.print(_unknown_gains(report), markup=False, soft_wrap=True)
        for name in report.unknown:
            console.print(
                f"{report.model}: {name} is not a competition of DSBench", markup=False, soft_wrap=True
            )
        bad = [row for row in report.rows if row.reason]
        for row in bad:
            console.print(
                f"{report.model}: {row.name}: {row.status}: {row.reason}", markup=False, soft_wrap=True
            )
        if args.each:
            print_whole(_each(report))
    if args.json:
        write_json(args.json, {"benchmark": "dsbench", "reports": [report.as_json() for report in reports]})
    return int(any(report.no_gain for report in reports))


class Data:
    """The tasks of a release, or of the added data if ``path`` is None, loaded when first asked for."""

    def __init__(self, path: str | None) -> None:
        self._path = path
        self._tasks: dsbench.DSBenchTasks | None = None

    def task(self, name: str) -> Task:
        """The task of a competition. Raises DataError if it cannot be used, DataMissingError if none can."""
        if self._tasks is None:
            try:
                self._tasks = dsbench.load_all(self._path)
            except DataError as error:
                raise DataMissingError(f"there is nothing to judge submissions by: {error}") from error
        return self._tasks.usable(name)


def _summary(reports: Sequence[Report]) -> Table:
    table = Table("model", "RPG", "RPG, capped", "completed", "rate", title="DSBench, data modelling")
    for report in reports:
        n = len(report.rows)
        table.add_row(
            escape(report.model),
            *(f"{'≥ ' if report.no_gain else ''}{rpg:.6f}" for rpg in (report.rpg, report.rpg_capped)),
            *(
                f"{'≥ ' if report.no_data else ''}{completed}"
                for completed in (f"{report.completed}/{n}", f"{report.completed / n:.1%}")
            ),
        )
    return table


def _unknown_gains(report: Report) -> str:
    """Which competitions a total counts 0, although nobody knows that they earned nothing."""
    names = ", ".join(report.no_gain)
    return (
        f"{report.model}: no total: the gain of {len(report.no_gain)} of {len(report.rows)} competitions is "
        f"not known and counts 0: {names}"
    )


def _each(report: Report) -> Table:
    table = Table(
        "competition", "metric", "score", "baseline", "best", "gain", "status", title=escape(report.model)
    )
    for row in report.rows:
        numbers = ("" if value is None else f"{value:.6g}" for value in (row.score, row.baseline, row.best))
        known = f"{row.gain:.4f}" if row.name not in report.no_gain else ""
        table.add_row(row.name, row.metric, *numbers, known, row.status)
    return table
