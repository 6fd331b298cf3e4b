"""What commands print: lines, and the report and tables that every finished run ends with."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from mappa_rl.config import Config
from mappa_rl.config.unread import unread
from mappa_rl.errors import RunError
from mappa_rl.report.groups import Group, group_runs
from mappa_rl.report.runs import find_runs, read_run

REFUSED = 2
"""Exit status of wrong input, whether a command refuses it or a dry run finds it."""


class Interrupted(Exception):
    """The signal ``number`` during the run in ``folder``."""

    def __init__(self, folder: Path, number: int) -> None:
        super().__init__(folder, number)
        self.folder, self.number = folder, number


def say(console: Console, text: str) -> None:
    """Print one line as it is, without markup or line breaks."""
    console.print(text, markup=False, highlight=False, soft_wrap=True)


def say_unread(config: Config, overrides: Sequence[str], console: Console) -> None:
    """Print a line for each of the user's ``overrides`` that has no effect."""
    for text in unread(config, overrides):
        say(console, f"note: {text}")


def one_run(folder: Path, verb: str) -> Path:
    """``folder`` itself, if it is one run. Raises RunError for several runs, and for none."""
    if find_runs([folder]) != [folder]:
        raise RunError(f"{folder} holds several runs: {verb} one of them at a time.")
    return folder


def finish(folders: Sequence[Path], out: Path, console: Console) -> int:
    """Write the page of finished runs in ``out``, print their tables, and ``out`` on the last line.

    The page is a report, or a comparison if the settings of the runs differ.
    """
    from mappa_rl.evaluation.summary import read_summary
    from mappa_rl.report.html import build_comparison, build_report
    from mappa_rl.report.tables import work_table

    groups = group_runs([read_run(folder) for folder in folders])
    differ = len(groups) > 1
    page = build_comparison([out]) if differ else build_report(out)
    tables(groups, console)
    summary = read_summary(out)
    if summary is not None and summary.work:
        console.print(work_table(summary))
    say(console, f"{'comparison' if differ else 'report'}: {page}")
    say(console, str(out))
    return 0


def tables(groups: Sequence[Group], console: Console) -> None:
    """Print the results of these groups of runs, their comparison, and warnings."""
    from mappa_rl.report.tables import report_tables

    for table in report_tables(groups):
        console.print(table)
