"""``mappa-env why``: from how recorded episodes ended back to the action that made them end so."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from mappa_env.cards import Card
from mappa_env.coach.blame import attribute
from mappa_env.errors import OptionError
from mappa_env.registration import card_of, find_card
from mappa_env.rendering import printable
from mappa_env.trace.record import read
from mappa_env.types import Attribution, Trajectory


def add(commands: Any) -> None:
    parser = commands.add_parser("why", help="why recorded episodes failed, and whose doing it was")
    parser.add_argument("trace", metavar="FILE", help="a trace: play --record, record=, or a run's traces/")
    parser.add_argument("--episode", type=int, metavar="N", help="only the N-th episode of the file, from 0")
    parser.add_argument("--card", metavar="ID|FOLDER", help="default: the card that the trace names")
    parser.add_argument(
        "--show", type=int, default=10, metavar="N", help="failures told in full (default: %(default)s)"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    console = Console()
    cards: dict[str, Card] = {}
    culprits: Counter[tuple[str, str]] = Counter()
    ended: Counter[bool] = Counter()
    shown = 0
    for number, trajectory in enumerate(_read(args.trace)):
        if args.episode not in (None, number) or trajectory.outcome is None:
            continue
        ended[trajectory.outcome.success] += 1
        if trajectory.outcome.success:
            continue
        name = args.card or trajectory.env_id
        if name not in cards:
            cards[name] = find_card(card_of(name))
        found = trajectory.attribution or attribute(trajectory, cards[name].team)
        culprits[_culprit(trajectory, found), found.decided] += 1
        if shown < args.show or args.episode is not None:
            _tell(console, number, trajectory, found)
        shown += 1
    if not ended:
        raise OptionError(f"{args.trace} holds no such episode.")
    console.print(f"{ended[True]} of {ended.total()} episodes succeeded")
    if culprits:
        table = Table("culprit", "decided by", "failures", title="whose doing the failures are")
        for (agent, decided), count in culprits.most_common():
            table.add_row(agent, decided, str(count))
        console.print(table)
    return 0


def _read(path: str) -> Iterator[Trajectory]:
    try:
        yield from read(path)
    except OSError as error:
        raise OptionError(f"{path} cannot be read: {error.strerror}.") from None


def _culprit(trajectory: Trajectory, found: Attribution) -> str:
    return "unknown" if found.culprit is None else trajectory.actions[found.culprit].agent


def _tell(console: Console, number: int, trajectory: Trajectory, found: Attribution) -> None:
    outcome = trajectory.outcome
    assert outcome is not None
    console.print(
        f"[bold]episode {number}[/], task {escape(trajectory.task.id)}: {outcome.status}, "
        f"{escape(printable(outcome.reason))}",
        soft_wrap=True,
    )
    for link in found.walk:
        record = trajectory.actions[link.action]
        share = f"  [red]{found.shares[link.action]:.0%}[/]" if found.shares else ""
        who = f"{record.agent}, turn {record.turn}"
        console.print(
            f"  <- {who} (action {link.action}): {escape(printable(link.reason))}{share}",
            highlight=False,
            soft_wrap=True,
        )
    if not found.shares:
        names = sorted({trajectory.actions[step].agent for step in found.suspects})
        console.print(f"  the trail does not decide between {', '.join(names) or 'any'}", highlight=False)
