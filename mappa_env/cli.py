"""Play, check and measure team environments for LLM agents, and add data to them."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from typing import Any

from mappa_env import __version__
from mappa_env.commands import (
    bench_sandbox,
    check,
    coach_bench,
    coach_cost,
    coach_probe,
    contamination,
    data,
    doctor,
    evaluate,
    leaderboard,
    listing,
    new,
    play,
    score,
    serve,
    trace_diff,
    trace_export,
    trace_grep,
    trace_ls,
    trace_show,
    view,
    why,
)
from mappa_env.commands._shared import Parser, command_group, group
from mappa_env.errors import MappaError

FAILED, INTERRUPTED = 2, 130


def parser() -> Parser:
    """The parser of ``mappa-env``; each subcommand adds itself and sets the function that runs it."""
    top = Parser(prog="mappa-env", description=__doc__)
    top.add_argument("--version", action="version", version=f"mappa {__version__}")
    commands = group(top)
    for module in (listing, new, play, view, check, why):
        module.add(commands)
    trace = command_group(commands, "trace", "list, show, compare, search and export recorded episodes")
    for module in (trace_ls, trace_show, trace_diff, trace_grep, trace_export):
        module.add(trace)
    bench_sandbox.add(command_group(commands, "bench", "benchmark this machine"))
    coach = command_group(commands, "coach", "measure a coach")
    for module in (coach_bench, coach_probe, coach_cost):
        module.add(coach)
    for module in (evaluate, leaderboard, contamination, serve, doctor, data, score):
        module.add(commands)
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Returns:
        The exit status: 0 success, 1 a check failed, 2 wrong usage or an error, 130 Ctrl-C.
    """
    try:
        args = parser().parse(argv)
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
    except BrokenPipeError:  # the reader (head, less) is gone: stay silent, also at interpreter exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return status


def _show_warning(message: Warning | str, *where: Any, **more: Any) -> None:
    """Print a warning without the line of code that raised it."""
    print(f"mappa-env: warning: {message}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
