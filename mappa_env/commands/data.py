"""``mappa-env data``: add task files that may not be shipped, list those added."""

from __future__ import annotations

import argparse
from typing import Any

from mappa_env.data import adding, store


def add(commands: Any) -> None:
    parser = commands.add_parser("data", help="add task files, or list those added")
    actions = parser.add_subparsers(required=True, metavar="action")
    adding = actions.add_parser("add", help="check task files of your own and store them")
    adding.add_argument("name", help="aime, amc or dsbench")
    adding.add_argument("path", help="the file (aime, amc) or the folder (dsbench)")
    adding.add_argument("--split", default="train", choices=store.SPLITS)
    adding.add_argument(
        "--drop-overlap", action="store_true", help="leave out problems that the other split holds"
    )
    adding.set_defaults(run=run_add)
    listing = actions.add_parser("list", help="what was added, and where it lies")
    listing.set_defaults(run=run_list)


def run_add(args: argparse.Namespace) -> int:
    added = adding.add(args.name, args.path, split=args.split, drop_overlap=args.drop_overlap)
    left_out = f" ({added.dropped} left out: the other split holds them)" if added.dropped else ""
    print(f"{added.tasks} tasks{left_out} -> {added.path}")
    return 0


def run_list(args: argparse.Namespace) -> int:
    root = store.data_root()
    print(f"{root}  (set MAPPA_DATA to use another folder)")
    folders = sorted(path for path in root.iterdir() if path.is_dir()) if root.is_dir() else []
    for folder in folders:
        names = ", ".join(sorted(path.name for path in folder.iterdir() if not path.name.startswith(".")))
        print(f"{folder.name}: {names or 'empty'}")
    if not folders:
        print("nothing added yet: mappa-env data add NAME PATH")
    return 0
