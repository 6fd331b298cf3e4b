"""``mappa-env serve``: an environment over HTTP."""

from __future__ import annotations

import argparse
from typing import Any

from mappa_env.commands._shared import (
    COACH_HELP,
    at_least,
    command,
    sandbox_option,
    sigterm_ends,
    spec_option,
)
from mappa_env.serving.limits import Limits
from mappa_env.serving.server import Server
from mappa_env.serving.token import VARIABLE

_DEFAULTS = Limits()


def add(commands: Any) -> None:
    """Add ``serve`` to ``commands``."""
    parser = command(commands, "serve", run, "offer an environment over HTTP, to a trainer elsewhere")
    parser.add_argument("env", metavar="ID|FOLDER", help="for instance mappa/MathChat-v0, or a card folder")
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        help=f"default: %(default)s; others need a token in the variable {VARIABLE}",
    )
    parser.add_argument(
        "--port", type=at_least(0), default=0, metavar="N", help="default: any free port, which is printed"
    )
    parser.add_argument("--tasks", default="train", metavar="SPLIT|PATH", help="default: %(default)s")
    parser.add_argument(
        "--agent", metavar="AGENT", help="clients act for this agent, partners for the others"
    )
    parser.add_argument("--partners", metavar="expert|faulty", help="with --agent (default: expert)")
    parser.add_argument(
        "--coach", default="rubric", metavar="SPEC", help=f"off, {COACH_HELP} (default: rubric)"
    )
    parser.add_argument("--shaping", default="process", metavar="SPEC", help="default: %(default)s")
    sandbox_option(parser)
    parser.add_argument("--prompts", default="full", help="length of the prompts (default: %(default)s)")
    parser.add_argument(
        "--episodes",
        type=at_least(1),
        default=_DEFAULTS.episodes,
        metavar="N",
        help="open at once (default: %(default)s)",
    )
    parser.add_argument(
        "--idle",
        type=at_least(1),
        default=int(_DEFAULTS.idle_s),
        metavar="SECONDS",
        help="close an episode that nobody calls for so long (default: %(default)s)",
    )


def run(args: argparse.Namespace) -> int:
    """Serve until SIGTERM or Ctrl-C. Raises OptionError."""
    options = {
        "tasks": args.tasks,
        "coach": spec_option("--coach", args.coach),
        "shaping": spec_option("--shaping", args.shaping),
        "sandbox": spec_option("--sandbox", args.sandbox),
        "prompts": args.prompts,
        "agent": args.agent,
        "partners": args.partners,
    }
    limits = Limits(episodes=args.episodes, idle_s=args.idle)
    with sigterm_ends():
        Server(args.env, options, args.host, args.port, limits).run(_ready)
    return 0


def _ready(url: str) -> None:
    print(f"serving at {url} (Ctrl-C ends)", flush=True)
