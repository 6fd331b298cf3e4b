"""Arguments that several commands share, and the types of their values."""

from __future__ import annotations

import argparse

from mappa_rl.errors import ConfigError

CHECKPOINT_HELP = "checkpoint to use (default: latest); best: highest success on eval.validation_tasks"
RECIPE_HELP = "name of a recipe, or path of a YAML file"
OVERRIDE_HELP = "settings to change, for example algo.kl_coef=0.02"


def add_checkpoint(parser: argparse.ArgumentParser) -> None:
    """Add ``--checkpoint``."""
    parser.add_argument("--checkpoint", default="latest", metavar="latest|best|STEP", help=CHECKPOINT_HELP)


def add_model(parser: argparse.ArgumentParser) -> None:
    """Add ``--model``, which the command line turns into the override ``model.kind=``."""
    parser.add_argument(
        "--model",
        metavar="FOLDER|ID",
        help="short for model.kind=: a model's folder, or the Hugging Face id of a downloaded one",
    )


def add_overrides(parser: argparse.ArgumentParser, meaning: str = OVERRIDE_HELP) -> None:
    """Add ``key=value`` arguments."""
    parser.add_argument("overrides", nargs="*", metavar="key=value", help=meaning)


def add_fleet(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of commands that start one run or several."""
    parser.add_argument("--seeds", type=seeds, metavar="0,1,2", help="one run per seed (default: run.seed)")
    parser.add_argument(
        "--parallel", type=count, default=1, metavar="N", help="runs at the same time (default: 1)"
    )
    add_dry_run(parser)
    parser.add_argument(
        "--no-rehearsal",
        action="store_true",
        help="with --dry-run: skip the much shorter run that estimates the time",
    )


def add_dry_run(parser: argparse.ArgumentParser) -> None:
    """Add ``--dry-run`` and ``--verbose``."""
    parser.add_argument(
        "--dry-run", action="store_true", help="check everything and print a forecast; start nothing"
    )
    parser.add_argument(
        "--verbose", action="store_true", help="with --dry-run: print the full configuration too"
    )


def check_dry_run(args: argparse.Namespace) -> None:
    """Raise ConfigError for an option that says how to show a dry run, where there is none."""
    if getattr(args, "dry_run", True):
        return
    for name in ("verbose", "no_rehearsal"):
        if getattr(args, name, False):
            raise ConfigError(f"--{name.replace('_', '-')} needs --dry-run: it changes what that prints.")


def check_parallel(parallel: int, runs: int) -> None:
    """Raise ConfigError for runs at the same time where there is one."""
    if parallel > 1 and runs == 1:
        raise ConfigError(f"--parallel {parallel}, but there is one run: give several with --seeds 0,1,2.")


def names(text: str) -> list[str]:
    """Distinct names, separated by commas. Raises argparse.ArgumentTypeError."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    if not words or len(set(words)) != len(words):
        raise argparse.ArgumentTypeError(f"{text!r} must be distinct names, for example process,outcome")
    return words


def seeds(text: str) -> list[int]:
    """Distinct whole numbers, separated by commas. Raises argparse.ArgumentTypeError."""
    if not all(word.isdecimal() for word in names(text)):
        raise argparse.ArgumentTypeError(f"{text!r} must be whole numbers, for example 0,1,2")
    found = [int(word) for word in names(text)]
    if len(set(found)) < len(found):
        raise argparse.ArgumentTypeError(f"{text!r} must be distinct numbers, for example 0,1,2")
    return found


def count(text: str) -> int:
    """A whole number from 1. Raises argparse.ArgumentTypeError."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} must be a whole number from 1")
    return int(text)
