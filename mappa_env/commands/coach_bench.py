"""``mappa-env coach bench``: does a coach name who spoiled an episode, and with which action."""

from __future__ import annotations

import argparse
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
from mappa_env.commands.coach_options import COACH_HELP, coach_option, write_json
from mappa_env.errors import OptionError, SandboxWarning
from mappa_env.registration import card_of, find_card
from mappa_env.sandbox import DEFAULT

INTERRUPTED = 130


def add(commands: Any) -> None:
    parser = commands.add_parser(
        "bench", help="faults with a known culprit: whom does the coach name, what do its scores say"
    )
    parser.add_argument(
        "env", metavar="ID|FOLDER", nargs="?", default="mappa/MathChat-v0", help="default: %(default)s"
    )
    arguments(parser)
    parser.set_defaults(run=run)


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--coach", default="rubric", metavar="SPEC", help=f"{COACH_HELP} (default: rubric)")
    parser.add_argument("--sandbox", default=DEFAULT, help="default: %(default)s")
    parser.add_argument("--tasks", default="train", metavar="SPLIT|PATH", help="default: %(default)s")
    parser.add_argument(
        "--episodes", type=int, default=4, metavar="N", help="tasks on which each fault is tried (default: 4)"
    )
    parser.add_argument("--seed", type=int, default=0, help="chooses tasks and faults (default: 0)")
    parser.add_argument(
        "--repeats", type=int, default=1, metavar="N", help="verdicts per action, past the cache (default: 1)"
    )
    parser.add_argument("--limit", type=int, metavar="N", help="stop after so many cases that count")
    parser.add_argument("--workers", type=int, default=2, metavar="N", help="threads (default: 2)")
    parser.add_argument(
        "--out", type=Path, metavar="JSONL", help="finished cases; an interrupted run resumes"
    )
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the figures here")
    parser.add_argument("--figure", type=Path, metavar="PATH", help="draw them here (.png, .svg, .pdf)")


def run(args: argparse.Namespace) -> int:
    """Exit status: 0 all well, 130 after Ctrl-C (what was finished is reported)."""
    for name in ("episodes", "repeats", "workers", "limit"):
        if getattr(args, name) is not None and getattr(args, name) < 1:
            raise OptionError(f"--{name} {getattr(args, name)} must be at least 1.")
    if args.figure:
        from mappa_env.benchmarking.figure import need_matplotlib

        need_matplotlib()
    card = find_card(card_of(args.env))
    options = Options(
        coach=coach_option(args.coach), sandbox=args.sandbox, tasks=args.tasks, episodes=args.episodes,
        seed=args.seed, repeats=args.repeats, workers=args.workers, limit=args.limit,
    )  # fmt: skip
    identity = {
        "env": card.id, "coach": options.coach, "sandbox": args.sandbox, "tasks": args.tasks,
        "episodes": args.episodes, "seed": args.seed, "repeats": args.repeats, "version": __version__,
    }  # fmt: skip
    file = RowFile(args.out, identity)
    bench = Bench(card, options, file)
    console = Console(width=None if sys.stdout.isatty() else 140)
    interrupted, failed = False, None
    with warnings.catch_warnings(), _progress(Console(stderr=True)) as progress:
        warnings.simplefilter("ignore", SandboxWarning)  # the code is ours
        bar = progress.add_task("looking for faults", total=None)

        def tell(counted: int, discarded: int, total: int) -> None:
            done, of = (counted + discarded, total) if args.limit is None else (counted, args.limit)
            told = f"{counted} count, {discarded} discarded"
            progress.update(bar, total=of, completed=done, description=told)

        try:
            rows = bench.run(tell)
        except KeyboardInterrupt:
            interrupted = True
        except Exception as error:  # noqa: BLE001  raised again once what was finished is reported
            failed = error
    if interrupted or failed:
        rows = list(file.rows.values())
    figures = summary(rows, card.team.names)
    for part in tables(f"{card.id}, coach {args.coach}", figures):
        console.print(part, highlight=False, markup=False)
    if args.json:
        document = {**identity, "interrupted": interrupted or failed is not None, **figures}
        write_json(args.json, document)
    if args.figure and figures["counted"]:
        from mappa_env.benchmarking.coach.figure import draw

        draw(f"{card.id}, coach {args.coach}", figures, args.figure)
    if failed is not None:
        raise failed
    return INTERRUPTED if interrupted else 0


def _progress(console: Console) -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    return Progress(*columns, console=console, transient=True)
