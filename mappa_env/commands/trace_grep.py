"""``mappa-env trace grep``: finds a text in prompts, actions, outputs, file names and verdicts."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator
from typing import Any

from rich.console import Console
from rich.text import Text

from mappa_env.commands._shared import command
from mappa_env.commands._traces import add_traces, chosen, opened
from mappa_env.envs.rendering import encodable, printable
from mappa_env.errors import OptionError
from mappa_env.trace import Recorded

WIDTH = 160
"""Characters of a line that are shown around a match."""


def add(commands: Any) -> None:
    """Add ``grep`` to ``commands``."""
    parser = command(commands, "grep", run, "search the texts of recorded episodes")
    parser.add_argument("pattern", metavar="PATTERN", help="a regular expression of Python")
    add_traces(parser)
    parser.add_argument("-i", "--ignore-case", action="store_true", help="match in any case")
    parser.add_argument("-F", "--fixed", action="store_true", help="PATTERN is a text, not an expression")


def run(args: argparse.Namespace) -> int:
    """Print matching lines. Returns 0, or 1 if nothing matches. Raises OptionError, DataError."""
    try:
        pattern = re.compile(
            re.escape(args.pattern) if args.fixed else args.pattern, re.IGNORECASE if args.ignore_case else 0
        )
    except re.error as error:
        raise OptionError(f"the pattern {args.pattern!r} is not a regular expression: {error}.") from None
    console = Console(highlight=False, soft_wrap=True)
    traces = opened(args.path)
    count = 0
    for number, summary, wanted in chosen(traces, args.filter):
        steps = wanted.actions(summary) if args.filter else tuple(range(len(summary.actions)))
        for step, agent, where, text in texts(traces.load(summary)):
            if step not in steps:
                continue
            for line in text.splitlines():
                if found := pattern.search(line):
                    count += 1
                    console.print(_line(f"{number} step {step} {agent} {where}: ", line, found.span()))
    return 0 if count else 1


def texts(recorded: Recorded) -> Iterator[tuple[int, str, str, str]]:
    """Step, agent, place and text of everything that was new in each action."""
    for step, (action, new) in enumerate(zip(recorded.trajectory.actions, recorded.news, strict=True)):
        parts = [("prompt", message["content"]) for message in new]
        parts.append(("action", action.action))
        if (tool := action.tool) is not None:
            parts += [("stdout", tool.stdout), ("stderr", tool.stderr)]
            parts += [("file", change.path) for change in tool.files]
        for call in action.calls:
            parts.append(("call", f"{call.tool} {json.dumps(dict(call.arguments), ensure_ascii=False)}"))
            parts.append(("result", call.text))
        parts.append(("verdict", action.verdict.reasoning))
        for criterion in action.verdict.criteria:
            parts.append(("criterion", f"{criterion.name}: {criterion.reason} {criterion.quote}".rstrip()))
        for where, text in parts:
            yield step, action.agent, where, text


def _line(head: str, line: str, span: tuple[int, int]) -> Text:
    start = max(0, span[0] - WIDTH // 2)
    shown = encodable(printable(line[start : start + WIDTH]))
    text = Text(head, "cyan").append(shown, "default")
    text.stylize("bold red", len(head) + span[0] - start, len(head) + span[1] - start)
    return text
