"""``mappa-rl compare``: runs side by side, grouped by the settings in which they differ."""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.console import Console

from mappa_rl.commands.console import say, tables

HELP = "compare runs, grouped by the settings in which they differ"


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    parser.add_argument(
        "folders", type=Path, nargs="+", metavar="RUN", help="folders of runs, or folders that hold runs"
    )
    parser.add_argument(
        "--to",
        type=Path,
        metavar="FILE",
        help="file to write (default: comparison.html in an only folder, or beside the first of several)",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace, console: Console) -> int:
    """Carry out the command; returns the exit status. Raises RunError for a single run."""
    from mappa_rl.report.html import build_comparison, several_groups

    path = build_comparison(args.folders, args.to)
    tables(several_groups(args.folders), console)
    say(console, str(path))
    return 0
