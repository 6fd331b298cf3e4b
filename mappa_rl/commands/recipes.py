"""``mappa-rl recipes``: list the recipes, show one in full, or list every key."""

from __future__ import annotations

import argparse

from rich.console import Console

from mappa_rl.commands.console import say
from mappa_rl.config import RECIPES, Config, load_config, recipe_names
from mappa_rl.config.overrides import keys

HELP = "list the recipes, or show one in full"


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    parser.add_argument("name", nargs="?", help="print this recipe with every default filled in")
    parser.add_argument("--keys", action="store_true", help="list every key with its default and meaning")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace, console: Console) -> int:
    """Carry out the command; returns the exit status."""
    if args.keys:
        for key, default, meaning in keys(Config):
            say(console, f"{key}={default!r}\n    {meaning}")
    elif args.name is not None:
        say(console, load_config(args.name).dump().rstrip())
    else:
        for name in recipe_names():
            first = (RECIPES / f"{name}.yaml").read_text(encoding="utf-8").split("\n", 1)[0]
            say(console, f"{name:18} {first.removeprefix('# ')}")
    return 0
