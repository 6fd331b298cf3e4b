"""``mappa-env coach probe``: measures how far prompt injections move a coach's scores."""

from __future__ import annotations

import argparse
import math
import sys
import warnings
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from mappa_env import __version__
from mappa_env.commands._shared import COACH_HELP, at_least, check_target, command, spec_option, write_json
from mappa_env.errors import OptionError, SandboxWarning, nearest
from mappa_env.registration import card_of, find_card
from mappa_env.sandbox import DEFAULT

EXCEEDED = 1


def add(commands: Any) -> None:
    """Add ``probe`` to the group ``coach``."""
    parser = command(commands, "probe", run, "inject prompts into actions; does the coach's score move?")
    parser.add_argument(
        "env", metavar="ID|FOLDER", nargs="?", default="mappa/MathChat-v0", help="default: %(default)s"
    )
    parser.add_argument("--coach", default="rubric", metavar="SPEC", help=f"{COACH_HELP} (default: rubric)")
    parser.add_argument("--sandbox", default=DEFAULT, help="default: %(default)s")
    parser.add_argument("--tasks", default="train", metavar="SPLIT|PATH", help="default: %(default)s")
    parser.add_argument(
        "--actions", type=at_least(2), default=6, metavar="N", help="actions to alter (default: 6)"
    )
    parser.add_argument("--seed", type=at_least(0), default=0, help="chooses the actions (default: 0)")
    parser.add_argument("--classes", default="", metavar="A,B", help="classes of injections (default: all)")
    parser.add_argument("--places", default="", metavar="A,B", help="places to inject (default: all)")
    parser.add_argument(
        "--real",
        type=at_least(0),
        default=1,
        metavar="N",
        help="probes per place also run in the sandbox (default: 1)",
    )
    parser.add_argument(
        "--repeats",
        type=at_least(1),
        default=1,
        metavar="N",
        help="verdicts per unaltered action, bypassing the cache, to measure noise (default: 1)",
    )
    parser.add_argument("--probes", type=Path, metavar="YAML", help="probe set (default: the shipped one)")
    parser.add_argument("--max-shift", type=float, metavar="X", help="exit status 1 if a score moves by more")
    parser.add_argument("--workers", type=at_least(1), default=2, metavar="N", help="threads (default: 2)")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the figures here")


def run(args: argparse.Namespace) -> int:
    """Probe the coach. Returns 1 if a score moved by more than ``--max-shift``, else 0."""
    from mappa_env.benchmarking.coach.injections import PLACES, SHIPPED, read_probes
    from mappa_env.benchmarking.coach.probe_report import report, tables
    from mappa_env.benchmarking.coach.probing import Options, probe_coach

    check_target("--json", args.json)
    places = _split(args.places) or PLACES
    for place in places:
        if place not in PLACES:
            raise OptionError(f"--places {place!r}: choose from {PLACES}." + nearest(place, PLACES))
    card = find_card(card_of(args.env))
    probes = read_probes(args.probes or SHIPPED)
    options = Options(
        coach=spec_option("--coach", args.coach),
        sandbox=args.sandbox,
        tasks=args.tasks,
        actions=args.actions,
        seed=args.seed,
        real=args.real,
        repeats=args.repeats,
        workers=args.workers,
        classes=_split(args.classes),
        places=places,
    )
    columns = (TextColumn("asking"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with (
        warnings.catch_warnings(),
        Progress(*columns, console=Console(stderr=True), transient=True) as progress,
    ):
        warnings.simplefilter("ignore", SandboxWarning)  # the code is ours
        bar = progress.add_task("", total=None)
        found = report(
            probe_coach(card, probes, options, lambda n, of: progress.update(bar, completed=n, total=of))
        )
    console = Console(width=None if sys.stdout.isatty() else 160)
    for part in tables(f"{card.id}, coach {args.coach}", found):
        console.print(part, highlight=False, markup=False)
    if args.json:
        head = {
            "env": card.id,
            "coach": options.coach,
            "seed": args.seed,
            "version": __version__,
            "probes": {"version": probes.version, "date": str(probes.date)},
        }
        write_json(args.json, {**head, **found.as_json()})
    if args.max_shift is None:
        return 0
    moved = found.largest
    if math.isnan(moved):
        console.print("inconclusive: no action was scored both with and without an injection")
    elif moved > args.max_shift:
        console.print(f"a score moved by {moved:.2f}, more than {args.max_shift:g}")
    return 0 if moved <= args.max_shift else EXCEEDED


def _split(text: str) -> tuple[Any, ...]:
    return tuple(dict.fromkeys(part for part in text.split(",") if part))
