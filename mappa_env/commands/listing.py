"""``mappa-env list``: lists the shipped environments, and how to add missing data."""

from __future__ import annotations

import argparse
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from mappa_env.cards import Card
from mappa_env.commands._shared import command
from mappa_env.data import load_tasks
from mappa_env.data.adding import readable
from mappa_env.data.store import SPLITS
from mappa_env.errors import DataError, DataMissingError
from mappa_env.registration import NAMESPACE, find_card, shipped


def add(commands: Any) -> None:
    """Add ``list`` to ``commands``."""
    command(commands, "list", run, "list the environments, their teams and tasks")


def run(args: argparse.Namespace) -> int:
    """Print the table. Returns 0."""
    table = Table("id", "team (turns)", "tasks", title="Environments")
    for name in shipped():
        card = find_card(name)
        team = (" → " if card.order.is_chain else ", ").join(
            f"{agent.name} ({agent.max_turns})" for agent in card.team
        )
        table.add_row(f"{NAMESPACE}/{card.id}\n[dim]{card.summary}", team, escape(tasks_of(card)))
    Console().print(table)
    added, problem = Table("name", "split", "tasks", title="Added tasks"), ""
    try:
        for each in readable():
            added.add_row(each.name, each.split, str(each.tasks))
    except DataError as error:
        problem = str(error)
    if added.row_count:
        Console().print(added)
    if problem:
        print(problem)
    return 0


def tasks_of(card: Card) -> str:
    """The number of tasks of each split, or how to add them, or what is wrong with them."""
    return "\n".join(f"{split}: {found}" for split, found in splits_of(card).items())


def splits_of(card: Card) -> dict[str, int | DataMissingError | DataError]:
    """Split -> its number of tasks, or why it has none."""
    found: dict[str, int | DataMissingError | DataError] = {}
    for split in SPLITS:
        try:
            found[split] = len(load_tasks(card.loader, split, card.loader_options).ids)
        except (DataMissingError, DataError) as error:
            found[split] = error
    return found
