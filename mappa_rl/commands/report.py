"""``mappa-rl report``: rebuild the report of a run."""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.console import Console

from mappa_rl.commands.console import say, tables

HELP = "rebuild report.html of a run"


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    parser.add_argument(
        "folder", type=Path, metavar="RUN", help="folder of a run, or of runs that differ in their seeds only"
    )
    parser.add_argument(
        "--to", type=Path, metavar="FILE", help="file to write (default: report.html in the folder)"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace, console: Console) -> int:
    """Carry out the command; returns the exit status. Raises RunError for runs of several settings."""
    from mappa_rl.report.html import build_report, one_group

    path = build_report(args.folder, args.to)
    tables([one_group(args.folder)], console)
    say(console, str(path))
    return 0
