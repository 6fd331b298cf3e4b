"""``mappa-env data``: adds task files that may not be redistributed, and lists them."""

from __future__ import annotations

import argparse
from typing import Any

from mappa_env.commands._shared import command, command_group
from mappa_env.data import adding, store
from mappa_env.places import data_root


def add(commands: Any) -> None:
    """Add the group ``data`` to ``commands``."""
    actions = command_group(commands, "data", "add task files, or list those added")
    adding = command(actions, "add", run_add, "check your own task files and store them")
    adding.add_argument("name", help="aime, amc or dsbench")
    adding.add_argument("path", help="the file (aime, amc) or the folder (dsbench)")
    adding.add_argument("--split", default="train", choices=store.SPLITS)
    adding.add_argument(
        "--drop-overlap", action="store_true", help="leave out problems that the other split contains"
    )
    command(actions, "list", run_list, "list the task files that were added, and their folder")


def run_add(args: argparse.Namespace) -> int:
    """Check and store the files. Raises DataError, OptionError."""
    added = adding.add(args.name, args.path, split=args.split, drop_overlap=args.drop_overlap)
    left_out = f" ({added.dropped} left out: they are in the other split)" if added.dropped else ""
    print(f"{added.tasks} tasks{left_out} -> {added.path}")
    return 0


def run_list(args: argparse.Namespace) -> int:
    """Print the data folder and what is in it. Returns 0."""
    root = data_root()
    print(f"{root}  (set MAPPA_DATA to use another folder)")
    folders = sorted(path for path in root.iterdir() if path.is_dir()) if root.is_dir() else []
    for folder in folders:
        names = ", ".join(sorted(path.name for path in folder.iterdir() if not path.name.startswith(".")))
        print(f"{folder.name}: {names or 'empty'}")
    if not folders:
        print("nothing added yet: mappa-env data add NAME PATH")
    return 0
