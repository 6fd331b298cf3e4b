"""``mappa-rl shape``: compare reward shapings from the same warm starts."""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.console import Console

from mappa_env.shaping import SHAPINGS
from mappa_rl.commands.console import say_unread
from mappa_rl.commands.fleet import plan_shapings
from mappa_rl.commands.options import (
    RECIPE_HELP,
    add_fleet,
    add_model,
    add_overrides,
    check_parallel,
    names,
)
from mappa_rl.commands.train import dry_run, run_several
from mappa_rl.config import load_config
from mappa_rl.config.run_folder import new_folder
from mappa_rl.training.preflight import find_problems, refuse

HELP = "compare reward shapings that start from the same warm starts"
DEFAULT = ("process", "outcome", "mixed")


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    parser.add_argument("recipe", help=RECIPE_HELP)
    add_overrides(parser)
    add_model(parser)
    parser.add_argument(
        "--shapings",
        type=_shapings,
        default=list(DEFAULT),
        metavar="A,B",
        help=f"shapings to compare (default: {','.join(DEFAULT)}); all: {','.join(SHAPINGS.builtin)}",
    )
    add_fleet(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace, console: Console) -> int:
    """Carry out the command; returns the exit status."""
    config = load_config(args.recipe, args.overrides)
    out = new_folder(config, f"{Path(args.recipe).stem}-shape")
    seeds = args.seeds or [config.run.seed]
    runs = len(seeds) * len(args.shapings)
    check_parallel(args.parallel, runs)
    if args.dry_run:
        return dry_run(args, config, out, console, args.shapings)
    say_unread(config, args.overrides, console)
    refuse(find_problems(config, out, shapings=args.shapings, runs=runs, parallel=args.parallel))
    return run_several(plan_shapings(config, out, seeds, args.shapings), out, args.parallel, console)


def _shapings(text: str) -> list[str]:
    return list(SHAPINGS.builtin) if text == "all" else names(text)
