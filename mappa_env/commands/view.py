"""``mappa-env view``: recorded episodes in a browser, or as one page."""

from __future__ import annotations

import argparse
import webbrowser
from pathlib import Path
from typing import Any

from mappa_env.commands._shared import at_least, command


def add(commands: Any) -> None:
    """Add ``view`` to ``commands``."""
    parser = command(commands, "view", run, "look at recorded episodes in a browser, action by action")
    parser.add_argument("trace", metavar="FILE|RUN", help="a trace file, a folder of them, or a run's folder")
    parser.add_argument(
        "--export", type=Path, metavar="PAGE", help="write one HTML file that needs no server, and end"
    )
    parser.add_argument(
        "--port", type=at_least(0), default=0, metavar="N", help="default: any free port of the loopback"
    )
    parser.add_argument("--card", metavar="ID|FOLDER", help="default: the card of the run, or of the trace")
    parser.add_argument("--no-browser", action="store_true", help="only print the address")


def run(args: argparse.Namespace) -> int:
    """Serve until interrupted, or export. Returns 0. Raises DataError without traces, OptionError."""
    from mappa_env.viewer.collection import open_collection  # lazy: keeps the other commands fast
    from mappa_env.viewer.exporting import export
    from mappa_env.viewer.server import ViewerServer

    collection = open_collection(args.trace, args.card)
    if args.export is not None:
        size = export(collection, args.export)
        print(f"{args.export}: {len(collection)} episodes, {size / 1e6:.1f} MB")
        return 0
    collection.changes(0)  # the first page must not wait for it
    with ViewerServer(collection, args.port) as server:
        print(f"{len(collection)} episodes of {collection.title} at {server.url} (Ctrl-C ends)", flush=True)
        if not args.no_browser:
            webbrowser.open(server.url)
        server.serve_forever()
    return 0
