"""What commands print: lines, and the report and tables that every finished run ends with."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from mappa_rl.errors import RunError
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


def one_run(folder: Path, verb: str) -> Path:
    """``folder`` itself, if it is one run. Raises RunError for several runs, and for none."""
    if find_runs([folder]) != [folder]:
        raise RunError(f"{folder} holds several runs: {verb} one of them at a time.")
    return folder


def finish(folders: Sequence[Path], out: Path, console: Console) -> int:
    """Write the report of finished runs, print their tables, and their folder on the last line."""
    from mappa_rl.evaluation.summary import read_summary
    from mappa_rl.report.html import REPORT, build_report
    from mappa_rl.report.tables import work_table

    build_report(list(folders), out / REPORT)
    tables(folders, console)
    summary = read_summary(out)
    if summary is not None and summary.work:
        console.print(work_table(summary))
    say(console, f"report: {out / REPORT}")
    say(console, str(out))
    return 0


def tables(folders: Sequence[Path], console: Console) -> None:
    """Print the results of these runs, their comparison, and warnings."""
    from mappa_rl.report.tables import report_tables

    for table in report_tables([read_run(folder) for folder in folders]):
        console.print(table)
