"""``mappa-env bench``: what this machine does in how much time."""

from __future__ import annotations

from typing import Any

from mappa_env.benchmarking.command import arguments, run


def add(commands: Any) -> None:
    parser = commands.add_parser("bench", help="measure this machine")
    subjects = parser.add_subparsers(dest="subject", required=True, metavar="subject")
    sandbox = subjects.add_parser("sandbox", help="milliseconds per action and actions per second")
    arguments(sandbox)
    sandbox.set_defaults(run=run)
