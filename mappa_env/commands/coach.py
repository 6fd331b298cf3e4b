"""``mappa-env coach``: what a coach is worth, and what it costs."""

from __future__ import annotations

from typing import Any

from mappa_env.commands import coach_bench, coach_cost, coach_probe

PARTS: tuple[Any, ...] = (coach_bench, coach_probe, coach_cost)
"""The modules of the subcommands, each with ``add(subparsers)`` and ``run(args)``."""


def add(commands: Any) -> None:
    parser = commands.add_parser("coach", help="measure a coach")
    subjects = parser.add_subparsers(dest="subject", required=True, metavar="subject")
    for part in PARTS:
        part.add(subjects)
