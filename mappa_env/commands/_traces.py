"""Shared by the ``trace`` subcommands: which traces, which episodes."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from mappa_env.errors import OptionError
from mappa_env.trace import Summary, Traces
from mappa_env.trace.filter import Filter

FILTER_HELP = "conditions that must all hold, as agent=coder_0 score<4 status=timeout phase=train"


def add_traces(parser: argparse.ArgumentParser) -> None:
    """Add the arguments PATH and FILTER."""
    parser.add_argument("path", metavar="PATH", help="a trace file, a folder of them, or a run's folder")
    parser.add_argument("filter", nargs="*", metavar="FILTER", help=FILTER_HELP)


def opened(path: str) -> Traces:
    """The traces at ``path``. Raises OptionError if they cannot be read."""
    try:
        return Traces(path)
    except OSError as error:
        raise OptionError(f"{path} cannot be read: {error.strerror}.") from None


def chosen(traces: Traces, terms: list[str]) -> Iterator[tuple[int, Summary, Filter]]:
    """Number, summary and filter of every episode that matches ``terms``."""
    wanted = Filter(terms)
    return ((number, each, wanted) for number, each in enumerate(traces.summaries) if wanted(each))


def numbered(traces: Traces, which: str) -> Summary:
    """The episode with the number, or the key, ``which``. Raises OptionError if there is none."""
    summaries = list(traces.summaries)
    if which.isdecimal() and int(which) < len(summaries):
        return summaries[int(which)]
    found = [summary for summary in summaries if summary.key == which]
    if not found:
        raise OptionError(
            f"{Path(traces.path)} has no episode {which!r}: it has {len(summaries)}, numbered from 0; "
            "'mappa-env trace ls' shows numbers and keys."
        )
    return found[0]
