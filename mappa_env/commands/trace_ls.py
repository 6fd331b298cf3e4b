"""``mappa-env trace ls``: the episodes of a run, a folder or a file, one per line."""

from __future__ import annotations

import argparse
from typing import Any

from rich.console import Console
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
    """Print a line for each. Returns 0. Raises OptionError, DataError."""
    console = Console(highlight=False, soft_wrap=True)
    rows = [[Text(name) for name in ("no", "key", "phase", "task", "outcome", "scores")]]
    count = 0
    for number, summary, _ in chosen(opened(args.path), args.filter):
        count += 1
        if count <= args.most:
            words = [_shown(text) for text in (str(number), summary.key, _phase(summary), summary.task_id)]
            rows.append([*words, _outcome(summary), _scores(summary)])
    widths = [max(row[column].cell_len for row in rows) for column in range(len(rows[0]) - 1)]
    for *cells, last in rows:
        for cell, width in zip(cells, widths, strict=True):
            cell.pad_right(width - cell.cell_len)
        console.print(Text("  ").join([*cells, last]))
    more = f", of which {args.most} are shown (--most)" if count > args.most else ""
    console.print(f"{count} episodes{more}")
    return 0


def _phase(summary: Summary) -> str:
    words = [str(summary.about[name]) for name in ("phase", "step") if name in summary.about]
    return " ".join(words) or summary.file


def _outcome(summary: Summary) -> Text:
    if summary.success is None:
        return Text("cut off", NONE)
    word = "success" if summary.success else "failure"
    return Text(f"{word} {summary.score:.2f}", GOOD if summary.success else BAD)


def _scores(summary: Summary) -> Text:
    """Every agent with the scores of its actions in a row; a status in place of a missing score."""
    text, agent = Text(), ""
    for action in summary.actions:
        if action.agent != agent:
            text.append_text(_shown(f"{'  ' if agent else ''}{action.agent}"))
        agent = action.agent
        score = action.valid_score
        word = _shown(action.verdict).plain if score is None else f"{score:.1f}"
        text.append(" ").append(word, of_score(score))
        text.append_text(_shown("" if action.tool in ("", "ok") else f" ({action.tool})"))
    return text


def _shown(text: str) -> Text:
    return Text(encodable(printable(text)).replace("\n", " "))
