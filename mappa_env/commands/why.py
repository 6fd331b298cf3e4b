"""``mappa-env why``: finds the actions that caused the failures of recorded episodes."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from mappa_env.cards import Card
from mappa_env.coach.blame.attribution import attribute
from mappa_env.commands._shared import at_least, command
from mappa_env.envs.rendering import printable
from mappa_env.errors import OptionError
from mappa_env.json_and_yaml import read_yaml
from mappa_env.registration import card_of, find_card
from mappa_env.trace import read, trace_files
from mappa_env.trace.traces import FOLDER
from mappa_env.types import Attribution, Trajectory


@dataclass(frozen=True, slots=True)
class Recorded:
    """One recorded episode: its trace file, title (``episode 3``) and trajectory."""

    file: Path
    title: str
    trajectory: Trajectory


def add(commands: Any) -> None:
    """Add ``why`` to ``commands``."""
    parser = command(commands, "why", run, "find which agent caused the failures of recorded episodes")
    parser.add_argument(
        "trace", metavar="FILE|RUN", help="a trace file (play --record, record=), or the folder of a run"
    )
    parser.add_argument(
        "--episode", type=at_least(0), metavar="N", help="only the N-th episode of each file, from 0"
    )
    parser.add_argument("--card", metavar="ID|FOLDER", help="default: the card of the run, or of the trace")
    parser.add_argument(
        "--show",
        type=at_least(0),
        default=10,
        metavar="N",
        help="failures to show in full (default: %(default)s)",
    )


def run(args: argparse.Namespace) -> int:
    """Print the failures and a table of culprits. Returns 0. Raises OptionError for an invalid trace."""
    console = Console()
    cards: dict[str, Card] = {}
    culprits: Counter[tuple[str, str]] = Counter()
    ended: Counter[bool] = Counter()
    shown = 0
    for recorded in episodes(Path(args.trace), args.episode):
        trajectory = recorded.trajectory
        if trajectory.outcome is None:
            continue
        ended[trajectory.outcome.success] += 1
        if trajectory.outcome.success:
            continue
        name = args.card or env_of_run(recorded.file) or trajectory.env_id
        if name not in cards:
            cards[name] = _card(name, recorded)
        found = trajectory.attribution or _attributed(recorded, cards[name])
        culprits[_culprit(trajectory, found), found.decided] += 1
        if shown < args.show or args.episode is not None:
            _show(console, recorded, found)
        shown += 1
    console.print(f"{ended[True]} of {ended.total()} episodes succeeded")
    if culprits:
        table = Table("culprit", "decided by", "failures", title="failures by culprit")
        for (agent, decided), count in culprits.most_common():
            table.add_row(escape(printable(agent)), decided, str(count))
        console.print(table)
    return 0


def episodes(path: Path, only: int | None = None) -> Iterator[Recorded]:
    """The episodes of a trace file, or of all traces of a run; ``only``: take only the one of this number.

    Raises OptionError if there is none.
    """
    files = trace_files(path, steps=False)
    taken = False
    for file in files:
        count = 0
        prefix = f"{file.name}, " if len(files) > 1 else ""
        for count, trajectory in enumerate(_read(file), 1):
            if only in (None, count - 1):
                taken = True
                yield Recorded(file, f"{prefix}episode {count - 1}", trajectory)
        if not count:
            raise OptionError(
                f"{file} is not a trace: none of its lines is a recorded episode. Traces come from "
                "'mappa-env play --record FILE', the option record=, and the traces/ of a training run."
            )
    if not taken:
        raise OptionError(f"{path} has no episode {only}: the last one is {count - 1}.")


def env_of_run(trace: Path) -> str | None:
    """``env.id`` of the run whose ``traces`` folder has ``trace``; None if it is not part of a run.

    A run's card folder has no registered id, so the id in its traces cannot find it. Raises OptionError
    for a config without ``env.id``.
    """
    folder = next((above for above in trace.resolve().parents if above.name == FOLDER), None)
    config = None if folder is None else folder.parent / "config.yaml"
    if config is None or not config.is_file():
        return None
    try:
        found = read_yaml(config.read_bytes())
        return str(found["env"]["id"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise OptionError(f"{config} is not the config of a run: env.id cannot be read ({error}).") from error


def _attributed(recorded: Recorded, card: Card) -> Attribution:
    try:
        return attribute(recorded.trajectory, card)
    except StopIteration:
        names = sorted({action.agent for action in recorded.trajectory.actions} - {*card.team.names})
        raise OptionError(
            f"{recorded.file}, {recorded.title}: the team of {card.id} has no {', '.join(names)}: name the "
            "card that it was recorded with, --card."
        ) from None


def _card(name: str, recorded: Recorded) -> Card:
    try:
        return find_card(card_of(name))
    except OptionError as error:
        raise OptionError(f"the card of {recorded.file} is unknown: {error} Name it with --card.") from error


def _read(path: Path) -> Iterator[Trajectory]:
    try:
        yield from read(path)
    except OSError as error:
        raise OptionError(f"{path} cannot be read: {error.strerror}.") from None


def _culprit(trajectory: Trajectory, found: Attribution) -> str:
    return "unknown" if found.culprit is None else trajectory.actions[found.culprit].agent


def _show(console: Console, recorded: Recorded, found: Attribution) -> None:
    trajectory = recorded.trajectory
    outcome = trajectory.outcome
    assert outcome is not None
    console.print(
        f"[bold]{escape(recorded.title)}[/], task {escape(printable(trajectory.task.id))}: "
        f"{escape(printable(outcome.status))}, "
        f"{escape(printable(outcome.reason))}",
        soft_wrap=True,
    )
    for link in found.walk:
        record = trajectory.actions[link.action]
        fraction = f"  [red]{found.fractions[link.action]:.0%}[/]" if found.fractions else ""
        who = f"{escape(printable(record.agent))}, turn {record.turn}"
        console.print(
            f"  <- {who} (action {link.action}): {escape(printable(link.reason))}{fraction}",
            highlight=False,
            soft_wrap=True,
        )
    if not found.fractions:
        names = sorted({trajectory.actions[step].agent for step in found.suspects})
        console.print(f"  undecided between {', '.join(names) or 'all agents'}", highlight=False)
