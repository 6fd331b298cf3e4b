"""``mappa-rl``: parses the command line; ``COMMANDS`` are its subcommands."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress

from rich.console import Console

from mappa_env import __version__
from mappa_env.errors import MappaError, nearest
from mappa_rl.commands import (
    compare,
    export,
    generate,
    plan,
    play,
    recipes,
    replay,
    report,
    shape,
    status,
    train,
)
from mappa_rl.commands import eval as evaluate
from mappa_rl.commands.console import REFUSED, Interrupted, say
from mappa_rl.commands.options import check_dry_run
from mappa_rl.errors import ConfigError, MappaRLError
from mappa_rl.stopping import exit_status, signal_of

COMMANDS = {
    "train": train,
    "shape": shape,
    "eval": evaluate,
    "play": play,
    "export": export,
    "generate": generate,
    "replay": replay,
    "plan": plan,
    "status": status,
    "report": report,
    "compare": compare,
    "recipes": recipes,
}
WIDTH = 130
"""Columns of tables that do not go to a terminal."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status: 0, 1 (failed), 2 (wrong input), 130 or 143 (signals)."""
    words = list(sys.argv[1:] if argv is None else argv)
    parser = make_parser()
    if not words:
        parser.print_help()
        return 0
    args = _parse(parser, words)
    console = Console(width=None if sys.stdout.isatty() else WIDTH)
    try:
        check_dry_run(args)
        status: int = args.run(args, console)
        return status
    except Interrupted as stop:
        how = "Terminated" if stop.number == signal.SIGTERM else "Interrupted"
        with suppress(SystemExit, OSError):  # Ctrl-C also ends what the output is piped to
            say(console, f"\n{how}. The run so far is in {stop.folder}. To resume it:")
            say(console, f"mappa-rl train --resume {stop.folder}")
        return exit_status(stop.number)
    except KeyboardInterrupt as stopped:
        return exit_status(signal_of(stopped))
    except (MappaRLError, MappaError) as error:
        print(f"mappa-rl: {error}", file=sys.stderr)
        return REFUSED if isinstance(error, ConfigError) else 1


def make_parser() -> argparse.ArgumentParser:
    """The parser of ``mappa-rl``; each command adds its own arguments."""
    parser = argparse.ArgumentParser(prog="mappa-rl", description="Train teams of agents on coach rewards.")
    parser.add_argument("--version", action="version", version=f"mappa {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, command in COMMANDS.items():
        command.add(commands.add_parser(name, help=command.HELP, description=command.HELP))
    return parser


def _parse(parser: argparse.ArgumentParser, words: list[str]) -> argparse.Namespace:
    """Parse ``words``. Overrides may come before, between and after options, unlike in plain argparse."""
    if not words[0].startswith("-") and words[0] not in COMMANDS:
        parser.error(
            f"unknown command {words[0]!r}.{nearest(words[0], COMMANDS)} Commands: {', '.join(COMMANDS)}."
        )
    args, rest = parser.parse_known_args(words)
    if rest and (not hasattr(args, "overrides") or any(text.startswith("-") for text in rest)):
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    if rest:
        args.overrides = [*args.overrides, *rest]
    if getattr(args, "model", None):
        args.overrides = [f"model.kind={args.model}", *args.overrides]
    return args


if __name__ == "__main__":
    sys.exit(main())
