"""``mappa-env trace show``: whole episodes in the terminal, with verdicts, quotes and advantages."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

from rich.console import Console

from mappa_env.commands._shared import command
from mappa_env.commands._traces import FILTER_HELP, chosen, numbered, opened
from mappa_env.envs.colours import Painter
from mappa_env.envs.rendering import (
    FULL_HELP,
    PROMPT_LIMIT,
    one_line,
    render_outcome,
    render_record,
    render_section,
)
from mappa_env.trace import Recorded
from mappa_env.trace.filter import Filter
from mappa_env.types import Message


def add(commands: Any) -> None:
    """Add ``show`` to ``commands``."""
    parser = command(commands, "show", run, "show recorded episodes, action by action")
    parser.add_argument("path", metavar="PATH", help="a trace file, a folder of them, or a run's folder")
    parser.add_argument("filter", nargs="*", metavar="FILTER", help=f"{FILTER_HELP}; shows matching actions")
    parser.add_argument(
        "--episode", metavar="N|KEY", help="its number or key in 'trace ls' (default: the first that matches)"
    )
    parser.add_argument("--all", action="store_true", help="show every episode that matches")
    parser.add_argument("--full", action="store_true", help=FULL_HELP)


def run(args: argparse.Namespace) -> int:
    """Print the episodes. Returns 0, or 1 if none matches. Raises OptionError, DataError."""
    painter = Painter(Console(highlight=False, soft_wrap=True))
    traces = opened(args.path)
    wanted = Filter(args.filter)
    if args.episode is not None:
        summaries = [numbered(traces, args.episode)]
    else:
        summaries = [summary for _, summary, _ in chosen(traces, args.filter)][: None if args.all else 1]
    for summary in summaries:
        steps = wanted.actions(summary) if args.filter else None
        for block in rendered(traces.load(summary), steps, args.full):
            painter.print(block + "\n")
    return 0 if summaries else 1


def rendered(recorded: Recorded, steps: tuple[int, ...] | None = None, full: bool = True) -> Iterator[str]:
    """The episode as text, in blocks. ``steps``: only these actions; ``full``: nothing is folded."""
    trajectory = recorded.trajectory
    about = " ".join(f"{name} {value}" for name, value in recorded.about.items())
    head = " · ".join(part for part in (trajectory.env_id, trajectory.task.id, about, recorded.key) if part)
    yield f"== {one_line(head)}"
    for step, (action, new, segment) in enumerate(
        zip(trajectory.actions, recorded.news, recorded.segments, strict=True)
    ):
        if steps is not None and step not in steps:
            continue
        reward = f"{action.reward:.2f}" if action.reward_valid else "none"
        lines = [f"== step {step} · {one_line(action.agent)} · turn {action.turn} · segment {segment}"]
        count = len(action.messages) - len(new)
        title = f"prompt ({count} messages that the agent knows, then:)" if count else "prompt"
        lines.append(render_section(title, _messages(new), 0 if full else PROMPT_LIMIT))
        lines.append(render_record(action, reward, full))
        lines += [render_section("learned", text) for text in _learned(recorded, step)]
        yield "\n".join(lines)
    if trajectory.outcome is None:
        yield render_section("outcome", "cut off: the episode did not end")
    else:
        yield render_outcome(trajectory.outcome)


def _messages(messages: tuple[Message, ...]) -> str:
    if len(messages) == 1:
        return messages[0]["content"]
    return "\n\n".join(f"[{message['role']}]\n{message['content']}" for message in messages)


def _learned(recorded: Recorded, step: int) -> Iterator[str]:
    timings = recorded.trajectory.timings
    words = []
    if (made := recorded.learned.get(step)) is not None:
        tokens = f", {len(made.action_ids)} tokens" if made.action_ids else ""
        words.append(f"policy {made.policy} after {made.version} updates{tokens}")
        numbers = (("reward", made.reward if made.valid else None), ("return", made.returned))
        for name, value in (*numbers, ("advantage", made.advantage)):
            words.append(f"{name} none" if value is None else f"{name} {value:.3f}")
    if step < len(timings):
        words.append(f"waited {timings[step].waited_s:.3f} s, took {timings[step].took_s:.3f} s")
    if words:
        yield "; ".join(words)
