"""``mappa-env``: look at environments, play them, check them, add data."""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Sequence
from typing import Any

from mappa_env import __version__
from mappa_env.commands import bench, check, coach, data, doctor, listing, play, why
from mappa_env.errors import MappaError

COMMANDS = (listing, play, check, why, bench, coach, doctor, data)
FAILED, INTERRUPTED = 2, 130


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="mappa-env", description=__doc__)
    top.add_argument("--version", action="version", version=f"mappa {__version__}")
    commands = top.add_subparsers(dest="command", required=True, metavar="command")
    for command in COMMANDS:
        command.add(commands)
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Exit status: 0 all well, 1 a check failed, 2 wrong usage or an error with its remedy, 130 Ctrl-C."""
    args = parser().parse_args(argv)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            status: int = args.run(args)
        sys.stdout.flush()
    except MappaError as error:
        print(f"mappa-env: {error}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        print("\nmappa-env: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # the reader (head, less) has left: stay silent, also at interpreter exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return status


def _show_warning(message: Warning | str, *where: Any, **more: Any) -> None:
    """A user of the command has no use for the line of code."""
    print(f"mappa-env: warning: {message}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
