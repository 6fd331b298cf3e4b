"""``mappa-env leaderboard``: evaluations side by side."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from mappa_env.commands._shared import check_target, command, write_json
from mappa_env.errors import OptionError


def add(commands: Any) -> None:
    """Add ``leaderboard`` to ``commands``."""
    parser = command(commands, "leaderboard", run, "rank the evaluations in folders of 'mappa-env eval'")
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    parser.add_argument("--html", type=Path, metavar="PATH", help="write one page here")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the rows here")


def run(args: argparse.Namespace) -> int:
    """Print a table for each group that can be compared, without copies of an evaluation. Returns 0.

    Raises EvaluationError for an evaluation that is not finished or was changed, DataError, OptionError.
    """
    from rich.console import Console

    from mappa_env.envs.rendering import printable
    from mappa_env.evaluation.folder import Evaluation, read
    from mappa_env.evaluation.leaderboard import boards, page, show

    check_target("--html", args.html)
    check_target("--json", args.json)
    known: dict[Path, Path] = {}
    for folder in args.folders:
        if (first := known.setdefault(folder.resolve(), folder)) is not folder:
            raise OptionError(f"{folder} is the same evaluation as {first}: name it once.")
    console = Console(highlight=False, soft_wrap=True)
    runs: dict[str, tuple[Path, Evaluation]] = {}
    for folder in args.folders:
        evaluation = read(folder)
        first, _ = runs.setdefault(evaluation.run, (folder, evaluation))
        if first is not folder:
            said = f"{folder} is left out: it is a copy of {first}, with the same episodes."
            console.print(printable(said), markup=False)
    found = boards([evaluation for _, evaluation in runs.values()])
    show(found)
    if args.html:
        args.html.write_text(page(found), encoding="utf-8")
    if args.json:
        write_json(args.json, {env: [row.document for row in rows] for env, rows in found.items()})
    return 0
