"""``report.html``: one file that shows the results of one or several runs. Opens anywhere, offline."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import jinja2

from mappa_rl.report.groups import group_runs
from mappa_rl.report.runs import find_runs, read_run
from mappa_rl.telemetry.stopwatch import KINDS

REPORT = "report.html"
TEMPLATE = "report.html.jinja"
COMPARISON = "comparison.html"


def build_report(folders: Path | Sequence[Path], out: Path | None = None) -> Path:
    """Write the report of one run, or of several seeds and settings together, and return its path.

    A folder that holds runs stands for all of them. ``out`` defaults to ``report.html`` in the folder; of
    several folders, to ``comparison.html`` beside the first, whose own report stays. Raises RunError.
    """
    from mappa_rl.report.page import make_page

    given = [folders] if isinstance(folders, Path) else list(folders)
    runs = sorted((read_run(folder) for folder in find_runs(given)), key=lambda run: run.seed)
    path = out or (given[0] / REPORT if len(given) == 1 else given[0].resolve().parent / COMPARISON)
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,  # agents write hostile text
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    page = environment.get_template(TEMPLATE).render(page=make_page(group_runs(runs)), kinds=KINDS)
    path.write_text(page, encoding="utf-8", errors="backslashreplace")
    return path
