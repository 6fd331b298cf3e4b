"""``mappa-env trace ls``: the episodes of a run, a folder or a file, one per line."""

from __future__ import annotations

import argparse
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from mappa_env.commands._shared import at_least, command
from mappa_env.commands._traces import add_traces, chosen, opened
from mappa_env.envs.colours import BAD, GOOD, NONE, of_score
from mappa_env.envs.rendering import encodable, printable
from mappa_env.trace import Summary


def add(commands: Any) -> None:
    """Add ``ls`` to ``commands``."""
    parser = command(commands, "ls", run, "list recorded episodes with the score of every action")
    add_traces(parser)
    parser.add_argument(
        "--most", type=at_least(0), default=200, metavar="N", help="lines to show (default: %(default)s)"
    )


def run(args: argparse.Namespace) -> int:
    """Print a table. Returns 0. Raises OptionError, DataError."""
    console = Console(highlight=False)
    table = Table(box=None, pad_edge=False)
    for name in ("no", "phase", "task", "outcome", "scores"):
        table.add_column(name, no_wrap=name in ("no", "phase", "outcome"))
    count = 0
    for number, summary, _ in chosen(opened(args.path), args.filter):
        count += 1
        if count <= args.most:
            table.add_row(
                str(number), _phase(summary), _shown(summary.task_id), _outcome(summary), _scores(summary)
            )
    console.print(table)
    more = f", of which {args.most} are shown (--most)" if count > args.most else ""
    console.print(f"{count} episodes{more}")
    return 0


def _phase(summary: Summary) -> Text:
    words = [str(summary.about[name]) for name in ("phase", "step") if name in summary.about]
    return _shown(" ".join(words) or summary.file)


def _outcome(summary: Summary) -> Text:
    if summary.success is None:
        return Text("cut off", NONE)
    word = "success" if summary.success else "failure"
    return Text(f"{word} {summary.score:.2f}", GOOD if summary.success else BAD)


def _scores(summary: Summary) -> Text:
    """``agent score`` of every action; a status in place of a missing score."""
    text = Text()
    for action in summary.actions:
        score = action.verdict if action.score is None else f"{action.score:.1f}"
        text.append(f"{action.agent} ").append(score, of_score(action.score))
        text.append("  " if action.tool in ("", "ok") else f" ({action.tool})  ")
    return text


def _shown(text: str) -> Text:
    return Text(encodable(printable(text)).replace("\n", " "))
