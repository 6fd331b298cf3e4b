"""``mappa-env check``: runs all conformance suites on an id or a card folder."""

from __future__ import annotations

import argparse
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table

from mappa_env.commands._shared import command, sandbox_option, spec_option
from mappa_env.testing import Result, begin


def add(commands: Any) -> None:
    """Add ``check`` to ``commands``."""
    parser = command(commands, "check", run, "run all conformance suites; exit status 1 if one fails")
    parser.add_argument("env", metavar="ID|FOLDER", help="for instance mappa/MathChat-v0, or a card folder")
    parser.add_argument("--tasks", default="train", metavar="SPLIT|PATH", help="default: %(default)s")
    parser.add_argument("--coach", default="rubric", help="rubric or off (default: %(default)s)")
    sandbox_option(parser)


def run(args: argparse.Namespace) -> int:
    """Run the suites and print a table. Returns 1 if one failed, else 0."""
    console = Console()
    env_id, suites = begin(
        args.env, tasks=args.tasks, coach=args.coach, sandbox=spec_option("--sandbox", args.sandbox)
    )
    results: list[Result] = []
    with console.status(f"checking {env_id} ...") as status:
        for result in suites:
            results.append(result)
            status.update(f"checking {env_id}: {len(results)} suites done")
    table = Table("suite", Column("result", overflow="fold"), "seconds", title=env_id)
    for result in results:
        verdict = "[green]ok" if result.ok else f"[red]failed[/] {escape(result.detail)}"
        table.add_row(result.name, verdict, f"{result.seconds:.1f}")
    console.print(table)
    failed = sum(not result.ok for result in results)
    console.print(f"{len(results) - failed} of {len(results)} suites passed")
    return 1 if failed else 0
