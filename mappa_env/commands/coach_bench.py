"""``mappa-env coach bench``: does a coach blame the agent and the action that caused a failure?"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import warnings
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from mappa_env import __version__
from mappa_env.benchmarking.coach.rows import RowFile
from mappa_env.benchmarking.coach.running import Bench, Options
from mappa_env.benchmarking.coach.summary import summary
from mappa_env.benchmarking.coach.tables import tables
from mappa_env.commands._shared import COACH_HELP, at_least, check_target, command, spec_option, write_json
from mappa_env.errors import SandboxWarning
from mappa_env.registration import card_of, find_card
from mappa_env.sandbox import DEFAULT

INTERRUPTED = 130


def add(commands: Any) -> None:
    """Add ``bench`` to the group ``coach``."""
    parser = command(commands, "bench", run, "inject known faults; does the coach blame the right agent?")
    parser.add_argument(
        "env", metavar="ID|FOLDER", nargs="?", default="mappa/MathChat-v0", help="default: %(default)s"
    )
    arguments(parser)


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the benchmark."""
    parser.add_argument("--coach", default="rubric", metavar="SPEC", help=f"{COACH_HELP} (default: rubric)")
    parser.add_argument("--sandbox", default=DEFAULT, help="default: %(default)s")
    parser.add_argument("--tasks", default="train", metavar="SPLIT|PATH", help="default: %(default)s")
    parser.add_argument(
        "--episodes",
        type=at_least(1),
        default=4,
        metavar="N",
        help="tasks to inject each fault into (default: 4)",
    )
    parser.add_argument("--seed", type=at_least(0), default=0, help="chooses tasks and faults (default: 0)")
    parser.add_argument(
        "--repeats",
        type=at_least(1),
        default=1,
        metavar="N",
        help="verdicts per action, bypassing the cache (default: 1)",
    )
    parser.add_argument(
        "--controls",
        type=at_least(0),
        default=2,
        metavar="N",
        help="tasks for the controls: idling, stopping, reporting after a fault (default: 2)",
    )
    parser.add_argument("--limit", type=at_least(1), metavar="N", help="stop after N valid cases")
    parser.add_argument("--workers", type=at_least(1), default=2, metavar="N", help="threads (default: 2)")
    parser.add_argument(
        "--out", type=Path, metavar="JSONL", help="keep finished cases here, to resume an interrupted run"
    )
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the figures here")
    parser.add_argument("--figure", type=Path, metavar="PATH", help="draw them here (.png, .svg, .pdf)")


def run(args: argparse.Namespace) -> int:
    """Run the benchmark. Returns 0, or 130 after Ctrl-C; reports the finished cases in both cases."""
    check_target("--json", args.json)
    if args.figure:
        from mappa_env.benchmarking.sandbox.figure import need_matplotlib

        need_matplotlib()
    card = find_card(card_of(args.env))
    options = Options(
        coach=spec_option("--coach", args.coach),
        sandbox=args.sandbox,
        tasks=args.tasks,
        episodes=args.episodes,
        seed=args.seed,
        repeats=args.repeats,
        workers=args.workers,
        controls=args.controls,
        limit=args.limit,
    )
    identity = {
        "env": card.id,
        "coach": options.coach,
        "sandbox": args.sandbox,
        "tasks": args.tasks,
        "episodes": args.episodes,
        "seed": args.seed,
        "repeats": args.repeats,
        "version": __version__,
    }
    file = RowFile(args.out, identity)
    bench = Bench(card, options, file)
    console = Console(width=None if sys.stdout.isatty() else 140)
    interrupted, failed = False, None
    with warnings.catch_warnings(), _progress(Console(stderr=True)) as progress:
        warnings.simplefilter("ignore", SandboxWarning)  # the code is ours
        bar = progress.add_task("looking for faults", total=None)

        def show(counted: int, discarded: int, total: int) -> None:
            done, of = (counted + discarded, total) if args.limit is None else (counted, args.limit)
            text = f"{counted} valid, {discarded} discarded"
            progress.update(bar, total=of, completed=done, description=text)

        try:
            rows = bench.run(show)
        except KeyboardInterrupt:
            interrupted = True
        except Exception as error:  # noqa: BLE001  raised again after the report on the finished cases
            failed = error
    if interrupted or failed:
        rows = list(file.rows.values())
    figures = summary(rows, card.team.names, bench.controlled)
    for part in tables(f"{card.id}, coach {args.coach}", figures):
        console.print(part, highlight=False, markup=False)
    if args.json:
        document = {
            **identity,
            "interrupted": interrupted or failed is not None,
            **dataclasses.asdict(figures),
        }
        write_json(args.json, document)
    if args.figure and figures.counted:
        from mappa_env.benchmarking.coach.figure import draw

        draw(f"{card.id}, coach {args.coach}", figures, args.figure)
    if failed is not None:
        raise failed
    return INTERRUPTED if interrupted else 0


def _progress(console: Console) -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    return Progress(*columns, console=console, transient=True)
