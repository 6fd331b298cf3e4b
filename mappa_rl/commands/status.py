"""``mappa-rl status``: what a run is doing, and on a cluster who does it."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from mappa_rl.cluster.roll import Present, call_roll
from mappa_rl.commands.checkpoint import newest_step
from mappa_rl.commands.console import one_run, say
from mappa_rl.config import load_config
from mappa_rl.config.run_folder import CONFIG
from mappa_rl.evaluation.summary import SUMMARY
from mappa_rl.telemetry.progress import clock
from mappa_rl.telemetry.sinks import METRICS, read_metrics
from mappa_rl.training.lock import holder

HELP = "say what a run is doing, and who does it"


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    parser.add_argument("folder", type=Path, metavar="RUN", help="folder of a run")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace, console: Console) -> int:
    """Carry out the command; returns the exit status."""
    folder = one_run(args.folder, "look at")
    for line in described(folder):
        say(console, line)
    if holder(folder) and (present := call_roll(folder)):  # a run that was killed may have left its record
        console.print(roll(present))
    return 0


def described(folder: Path) -> Iterator[str]:
    """What the files of a run say about it."""
    steps, at_work = load_config(folder / CONFIG).run.steps, holder(folder)
    if (folder / SUMMARY).is_file():
        yield "finished"
    elif at_work:
        yield f"at work: {at_work}"
    else:
        yield f"stopped; resume it with `mappa-rl train --resume {folder}`"
    if (last := _last(folder)) is None:
        yield f"no training step yet, of {steps:,}"
    else:
        step, success = last
        ago = clock(max(time.time() - (folder / METRICS).stat().st_mtime, 0.0))
        share = "unknown" if success is None else f"{success:.0%}"
        yield f"step {step:,} of {steps:,}, {ago} ago: success {share}"
    newest = newest_step(folder)
    yield f"newest checkpoint: step {newest:,}" if newest else "no checkpoint yet"


def roll(present: list[Present]) -> Table:
    """The processes of a run, where they are and what they do."""
    table = Table(title="on the cluster", title_justify="left", box=SIMPLE_HEAD)
    for column in ("who", "address", "node", "process", "doing"):
        table.add_column(column)
    for each in present:
        table.add_row(each.name, each.address, each.node, each.process, each.doing)
    return table


def _last(folder: Path) -> tuple[int, float | None] | None:
    """The newest training step and its success, which may be unknown; None if there is no step yet."""
    row = next((row for row in reversed(read_metrics(folder)) if "success" in row), None)
    return None if row is None else (row["step"], row["success"])
