"""The sandbox benchmark's command: options, measurement and output."""

from __future__ import annotations

import argparse
import os
import platform
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from mappa_env import __version__
from mappa_env.benchmarking.sandbox.actions import ACTIONS
from mappa_env.benchmarking.sandbox.backends import FLOOR, default_backends, labels, open_backends, option
from mappa_env.benchmarking.sandbox.figure import draw, need_matplotlib
from mappa_env.benchmarking.sandbox.first_action import first_action
from mappa_env.benchmarking.sandbox.measurement import Plan, Slice, measure
from mappa_env.benchmarking.sandbox.report import BASELINE, Report, isolations
from mappa_env.benchmarking.sandbox.table import tables
from mappa_env.errors import OptionError, SandboxWarning, nearest
from mappa_env.json_and_yaml import json_text

FAILED, INTERRUPTED = 1, 130


@dataclass(frozen=True)
class Scale:
    """How thoroughly the benchmark measures by default; the fields are those of ``Plan``."""

    in_flight: tuple[int, ...]
    repeats: int
    seconds: float
    patience: float


FULL = Scale(in_flight=(1, 2, 8, 64), repeats=3, seconds=2.5, patience=120.0)
QUICK = Scale(in_flight=(1, 8), repeats=2, seconds=0.4, patience=2.0)


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the benchmark."""
    parser.add_argument(
        "--python", metavar="PATH", help="interpreter of local, process, bwrap and floor (default: this one)"
    )
    parser.add_argument(
        "--backends",
        metavar="A,B",
        help=f"of local, process, bwrap, {FLOOR} (a bare warm fork), fusion:URL "
        "or your own file.py:Class (default: those available here)",
    )
    parser.add_argument("--actions", metavar="A,B", help=f"of {', '.join(ACTIONS)} (default: all)")
    parser.add_argument("--concurrency", metavar="N,N", help="actions in flight (default: 1,2,8,64)")
    parser.add_argument("--repeats", type=int, metavar="N", help=f"default: {FULL.repeats}")
    parser.add_argument(
        "--seconds", type=float, metavar="S", help=f"length of a slice (default: {FULL.seconds})"
    )
    parser.add_argument("--quick", action="store_true", help="coarser figures, under a minute")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the figures here")
    parser.add_argument(
        "--figure", type=Path, metavar="PATH", help="draw the figures here (.png, .svg, .pdf)"
    )
    parser.add_argument("--dry-run", action="store_true", help="print the plan and stop")


def plan_of(args: argparse.Namespace) -> Plan:
    """Make a plan from the options. Raises OptionError for an invalid value."""
    base = QUICK if args.quick else FULL
    names = _split(args.actions) or tuple(ACTIONS)
    for name in names:
        if name not in ACTIONS:
            raise OptionError(f"--actions {name!r}: choose from {tuple(ACTIONS)}." + nearest(name, ACTIONS))
    counts = _split(args.concurrency)
    if not all(count.isdecimal() and int(count) for count in counts):
        raise OptionError(f"--concurrency {args.concurrency!r} must be a list of numbers above 0, as in 1,8.")
    repeats = base.repeats if args.repeats is None else args.repeats
    seconds = base.seconds if args.seconds is None else args.seconds
    if repeats < 1 or not 0 < seconds < 3600:
        raise OptionError(f"--repeats {repeats} --seconds {seconds}: both must be above 0.")
    return Plan(
        backends=labels(_split(args.backends) or default_backends()),
        actions=tuple(ACTIONS[name] for name in names),
        in_flight=tuple(sorted(map(int, counts))) or base.in_flight,
        repeats=repeats,
        seconds=seconds,
        patience=max(base.patience, seconds * repeats),
    )


def run(args: argparse.Namespace) -> int:
    """Run the benchmark. Exit status: 0 success, 1 a backend gave a wrong answer, 130 after Ctrl-C."""
    plan = plan_of(args)
    if args.figure:
        need_matplotlib()
    console = Console(width=None if sys.stdout.isatty() else 100)
    console.print(describe(plan), highlight=False)
    if args.dry_run:
        return 0
    report, status = Report(), 0
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SandboxWarning)  # the code is ours, and the table says the level
            collect(plan, args.python, report, console)
    except KeyboardInterrupt:
        console.print("[yellow]interrupted; measured so far:")
        status = INTERRUPTED
    for table in tables(plan, report):
        console.print(table)
    for failure in report.failures:
        console.print(f"[red]failed:[/] {escape(failure)}")
    if args.json:
        document = json_text(as_document(plan, args.python, report, interrupted=bool(status)))
        args.json.write_text(document + "\n", encoding="utf-8")
    if args.figure:
        draw(plan, report, args.figure)
        console.print(f"figure: {args.figure}")
    return status or (FAILED if report.failures else 0)


def collect(plan: Plan, python: str | None, report: Report, console: Console) -> None:
    """Measure and fill ``report``, which remains usable after an interrupt."""
    waits = [name for name in plan.backends if name in ("local", BASELINE)]
    cells = list(plan.cells())
    with _progress(console) as progress:
        task = progress.add_task("starting", total=plan.repeats * (len(waits) + len(cells)))
        for _ in range(plan.repeats):
            for name in waits:
                progress.update(task, description=f"first action, {name}")
                report.firsts.setdefault(name, []).append(first_action(option(name, python)))
                progress.advance(task)
        progress.update(task, description="starting all backends")
        opened = open_backends(plan.backends, python)
        try:
            for found in measure(plan, opened):
                if isinstance(found, Slice):
                    report.slices.append(found)
                else:
                    progress.update(
                        task, advance=1, description=f"{found[0]}, {found[1]}, {found[2]} in flight"
                    )
        finally:
            for target in opened:
                target.close()


def describe(plan: Plan) -> str:
    """A description of the plan, with the minimum duration."""
    cells = len(list(plan.cells()))
    return (
        f"{len(plan.backends)} backends ({', '.join(plan.backends)}), {len(plan.actions)} actions, "
        f"{', '.join(map(str, plan.in_flight))} in flight: {cells} cells of {plan.seconds:g} s, "
        f"{plan.repeats} times, at least {cells * plan.seconds * plan.repeats / 60:.1f} min. "
        f"A cell that would take more than {plan.patience:g} s in total gets fewer repeats, or none."
    )


def as_document(plan: Plan, python: str | None, report: Report, *, interrupted: bool) -> dict[str, Any]:
    """The report with its machine, for a JSON file."""
    return {
        "version": __version__,
        "interrupted": interrupted,
        "machine": {
            "cores": len(os.sched_getaffinity(0)),
            "load_after": os.getloadavg()[0],
            "kernel": platform.release(),
            "architecture": platform.machine(),
            "uid": os.getuid(),
            "host_python": platform.python_version(),
            "python": python or sys.executable,
        },
        "isolation": isolations(report.slices),
        "figures": {name: found.as_json() for name, found in report.figures(list(plan.cells())).items()},
        "failures": report.failures,
    }


def _progress(console: Console) -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*columns, console=console, transient=True)


def _split(text: str | None) -> tuple[str, ...]:
    return tuple(dict.fromkeys(part for part in (text or "").split(",") if part))
