"""``mappa-rl report``: rebuild the report of one run, or of several together."""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.console import Console

from mappa_rl.commands.console import say, tables
from mappa_rl.report.runs import find_runs

HELP = "rebuild report.html of one run, or compare several runs"


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    parser.add_argument("folders", type=Path, nargs="+", metavar="RUN", help="folders of runs")
    parser.add_argument(
        "--to",
        type=Path,
        metavar="FILE",
        help="file to write (default: report.html in the run; comparison.html next to several)",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace, console: Console) -> int:
    """Carry out the command; returns the exit status."""
    from mappa_rl.report.html import build_report

    path = build_report(args.folders, args.to)
    tables(find_runs(args.folders), console)
    say(console, str(path))
    return 0
