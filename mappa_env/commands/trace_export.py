"""``mappa-env trace export``: recorded episodes in another tool's format."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from rich.console import Console

from mappa_env import __version__
from mappa_env.commands._shared import command
from mappa_env.commands._traces import FILTER_HELP, chosen, opened
from mappa_env.errors import OptionError
from mappa_env.trace.exports import FORMATS


def add(commands: Any) -> None:
    """Add ``export`` to ``commands``."""
    parser = command(commands, "export", run, "write recorded episodes in another tool's format")
    outputs = "; ".join(f"{name}: {each.output}" for name, each in FORMATS.items())
    parser.add_argument("path", metavar="PATH", help="a trace file, a folder of them, or a run's folder")
    parser.add_argument("out", metavar="OUT", type=Path, help=outputs)
    parser.add_argument("filter", nargs="*", metavar="FILTER", help=f"{FILTER_HELP}; whole episodes")
    parser.add_argument(
        "--format", choices=list(FORMATS), required=True, help="ATIF 1.7, Inspect, or OpenTelemetry"
    )
    parser.add_argument("--dropped", action="store_true", help="say what the format leaves out")


def run(args: argparse.Namespace) -> int:
    """Write the episodes. Returns 0. Raises OptionError if OUT exists or no episode matches."""
    console = Console(highlight=False, soft_wrap=True)
    traces = opened(args.path)
    if args.out.exists():
        raise OptionError(f"{args.out} exists already: name a file or folder that does not.")
    summaries = [summary for _, summary, _ in chosen(traces, args.filter)]
    if not summaries:
        raise OptionError(f"no episode of {args.path} matches {' '.join(args.filter)!r}.")
    form = FORMATS[args.format]
    try:
        count = form.write(args.out, (traces.load(summary) for summary in summaries), __version__)
    except OSError as error:
        raise OptionError(f"{args.out} cannot be written: {error.strerror or error}.") from None
    console.print(f"{args.out}: {count} episodes")
    if args.dropped:
        for what in form.dropped:
            console.print(f"  dropped: {what}")
    return 0
