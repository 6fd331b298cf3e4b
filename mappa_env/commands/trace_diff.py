"""``mappa-env trace diff``: the same tasks in two traces, as before and after training."""

from __future__ import annotations

import argparse
import difflib
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from mappa_env.commands._shared import at_least, command
from mappa_env.commands._traces import FILTER_HELP, chosen, opened
from mappa_env.envs.rendering import encodable, one_line, printable
from mappa_env.errors import OptionError
from mappa_env.trace import Recorded, Summary, Traces
from mappa_env.trace.exports.plain import uses

_LINES = {"+": "green", "-": "red", "@": "cyan"}


def add(commands: Any) -> None:
    """Add ``diff`` to ``commands``."""
    parser = command(commands, "diff", run, "compare the episodes on the same tasks and seeds in two traces")
    parser.add_argument("before", metavar="A", help="a trace file, or a folder of them")
    parser.add_argument("after", metavar="B", help="another")
    parser.add_argument("filter", nargs="*", metavar="FILTER", help=f"{FILTER_HELP}; for both")
    parser.add_argument("--task", metavar="ID", help="show the actions on this task line by line")
    parser.add_argument(
        "--most", type=at_least(0), default=20, metavar="N", help="episodes to list (default: %(default)s)"
    )


def run(args: argparse.Namespace) -> int:
    """Print the differences. Returns 0. Raises OptionError if the traces have no episode in common."""
    console = Console(highlight=False, soft_wrap=True)
    sides = opened(args.before), opened(args.after)
    pairs = list(_pairs(sides[0], sides[1], args.filter))
    if not pairs:
        raise OptionError(f"{args.before} and {args.after} have no task and seed in common.")
    if args.task is not None:
        mine = next((pair for pair in pairs if pair[0].task_id == args.task), None)
        if mine is None:
            raise OptionError(f"no episode on the task {args.task!r} is in both traces.")
        for line in changes(*(traces.load(one) for traces, one in zip(sides, mine, strict=True))):
            console.print(Text(encodable(printable(line)), _LINES.get(line[:1], "")))
        return 0
    console.print(_table(pairs))
    changed = [pair for pair in pairs if pair[0].success != pair[1].success]
    for before, after in changed[: args.most]:
        words = [_word(before), _word(after)]
        console.print(Text(encodable(printable(f"  {before.task_id}: {words[0]} -> {words[1]}"))))
    more = f", of which {args.most} are shown (--most)" if len(changed) > args.most else ""
    console.print(f"{len(pairs)} episodes on the same task and seed; {len(changed)} ended differently{more}")
    return 0


def changes(before: Recorded, after: Recorded) -> Iterator[str]:
    """The actions of two episodes as one text each, compared line by line."""
    return difflib.unified_diff(_lines(before), _lines(after), before.key, after.key, lineterm="", n=2)


def _pairs(before: Traces, after: Traces, terms: list[str]) -> Iterator[tuple[Summary, Summary]]:
    found: dict[tuple[str, int], list[Summary]] = defaultdict(list)
    for _, summary, _ in chosen(before, terms):
        found[summary.task_id, summary.seed].append(summary)
    for _, summary, _ in chosen(after, terms):
        if mine := found.get((summary.task_id, summary.seed)):
            yield mine.pop(0), summary


def _table(pairs: list[tuple[Summary, Summary]]) -> Table:
    table = Table("", "A", "B", box=None)
    rates = [sum(bool(pair[side].success) for pair in pairs) / len(pairs) for side in (0, 1)]
    table.add_row("success", *(f"{rate:.1%}" for rate in rates))
    agents = dict.fromkeys(action.agent for pair in pairs for one in pair for action in one.actions)
    for agent in agents:
        table.add_row(f"score of {escape(printable(agent))}", *(_mean(pairs, side, agent) for side in (0, 1)))
    return table


def _mean(pairs: list[tuple[Summary, Summary]], side: int, agent: str) -> str:
    scores = [action.valid_score for pair in pairs for action in pair[side].actions if action.agent == agent]
    known = [score for score in scores if score is not None]
    return f"{sum(known) / len(known):.2f}" if known else "none"


def _word(summary: Summary) -> str:
    return "cut off" if summary.success is None else "success" if summary.success else "failure"


def _lines(recorded: Recorded) -> list[str]:
    """Headings alone begin at the left margin, so that no text of an agent passes for one."""
    lines = []
    for step, action in enumerate(recorded.trajectory.actions):
        score = action.verdict.valid_score
        shown = action.verdict.status if score is None else f"{score:.1f}/10"
        lines += [f"== {action.agent} · turn {action.turn} · {shown}", *_indented(action.action)]
        for use in uses(recorded, step):
            lines += [f"-- {one_line(use.tool)}: {use.status}", *_indented(use.result)]
    return lines


def _indented(text: str) -> list[str]:
    return [f"   {line}" for line in text.splitlines()]
