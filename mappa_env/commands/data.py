"""``mappa-env data``: adds task files that may not be redistributed, lists and verifies them."""

from __future__ import annotations

import argparse
from typing import Any

from rich.markup import escape
from rich.table import Table

from mappa_env.commands._shared import command, command_group
from mappa_env.data import adding, store
from mappa_env.data.store import Added
from mappa_env.envs.rendering import printable
from mappa_env.envs.tables import print_whole
from mappa_env.places import data_root

MOST_SHOWN = 20
"""Tasks left out that are printed; the record has all."""
_NOTHING = "nothing added yet: mappa-env data add NAME PATH"


def add(commands: Any) -> None:
    """Add the group ``data`` to ``commands``."""
    actions = command_group(commands, "data", "add task files, list or verify those added")
    checked = command(actions, "add", run_add, "check your own task files and store the usable tasks")
    checked.add_argument("name", help=", ".join(adding.NAMES))
    checked.add_argument("path", help="the file (aime, amc), the folder (dsbench), or either (math)")
    checked.add_argument(
        "--split", choices=store.SPLITS, help="default: train, or both where the folder has both"
    )
    checked.add_argument(
        "--drop-overlap", action="store_true", help="leave out problems that the other split contains"
    )
    command(actions, "ls", run_ls, "list the task files that were added, with their digests")
    verified = command(actions, "verify", run_verify, "check added tasks; exit status 1 on a problem")
    verified.add_argument("name", nargs="?", help="default: all that were added")


def run_add(args: argparse.Namespace) -> int:
    """Check and store the files, and print what was left out and why. Raises DataError, OptionError."""
    for added in adding.add(args.name, args.path, split=args.split, drop_overlap=args.drop_overlap):
        print(f"{added.name} {added.split}: {added.tasks} tasks -> {added.path}")
        for text in added.corrected:
            print(f"corrected: {text}")
        for text in added.noted:
            print(f"note: {text}")
        if added.left_out:
            print(f"{len(added.left_out)} left out:")
        for each in added.left_out[:MOST_SHOWN]:
            print(f"  {each}")
        if len(added.left_out) > MOST_SHOWN:
            rest = len(added.left_out) - MOST_SHOWN
            print(f"  and {rest} more; {store.record_of(added.name, added.split)} lists all")
    return 0


def run_ls(args: argparse.Namespace) -> int:
    """Print the data folder and what was added to it. Returns 0. Raises DataError for records at the end."""
    print(f"{data_root()}  (set MAPPA_DATA to use another folder)")
    table = Table("name", "split", "tasks", "left out", "sha256", "added from")
    try:
        for added in adding.readable():
            table.add_row(*_cells(added), escape(printable(str(added.source))))
    finally:  # records that cannot be read do not hide the others
        if table.row_count:
            print_whole(table)
    if not table.row_count:
        print(_NOTHING)
    return 0


def run_verify(args: argparse.Namespace) -> int:
    """Print the state of each added split. Returns 1 if one has a problem or ``name`` has none, else 0.

    Raises DataError, OptionError.
    """
    bad = False
    found = False
    for added, problems in adding.verify(args.name):
        found = True
        bad = bad or bool(problems)
        name, split, tasks, left_out, digest = _cells(added)
        state = f"{len(problems)} problems" if problems else "ok"
        print(f"{name} {split}: {tasks} tasks, {left_out} left out, sha256 {digest}: {state}")
        for problem in problems[:MOST_SHOWN]:
            print(f"  {problem}")
    if not found and args.name is not None:
        print(f"{args.name} was not added: mappa-env data add {args.name} PATH")
        return 1
    if not found:
        print(_NOTHING)
    return int(bad)


def _cells(added: Added) -> tuple[str, str, str, str, str]:
    return added.name, added.split, str(added.tasks), str(len(added.left_out)), added.digest[:12]
