"""Pages that show the results of runs: one file each, which opens anywhere, offline."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jinja2

from mappa_env.viewer.page import REPORT
from mappa_rl.errors import RunError
from mappa_rl.report.groups import Group, group_runs
from mappa_rl.report.runs import find_runs, read_run
from mappa_rl.telemetry.stopwatch import KINDS

COMPARISON = "comparison.html"


def build_report(folder: Path, out: Path | None = None) -> Path:
    """Write the report of a run, or of the seeds in a folder, and return its path.

    ``out`` defaults to ``report.html`` in the folder. Raises RunError, also for runs whose settings differ.
    """
    from mappa_rl.report.page import make_page

    path = out or folder / REPORT
    return _write(path, "report.html.jinja", make_page(one_group(folder), path))


def one_group(folder: Path) -> Group:
    """The run in ``folder``, or its runs of several seeds. Raises RunError for runs whose settings differ."""
    groups = group_runs([read_run(each) for each in find_runs([folder])])
    if len(groups) > 1:
        raise RunError(
            f"the runs in {folder} differ in {', '.join(groups[0].values)}, and a report shows one setting: "
            f"compare them with `mappa-rl compare {folder}`."
        )
    return groups[0]


def build_comparison(folders: Sequence[Path], out: Path | None = None) -> Path:
    """Write the comparison of runs, grouped by the settings in which they differ, and return its path.

    A folder that holds runs stands for all of them. ``out`` defaults to ``comparison.html`` in an only
    folder, and beside the first of several. Raises RunError, also for a single run.
    """
    from mappa_rl.report.comparison import make_comparison

    groups = several_groups(folders)
    path = out or (folders[0] if len(folders) == 1 else folders[0].resolve().parent) / COMPARISON
    return _write(path, "comparison.html.jinja", make_comparison(groups, path))


def several_groups(folders: Sequence[Path]) -> list[Group]:
    """The groups of all these runs; those of one setting are kept apart. Raises RunError for a single run."""
    found = find_runs(folders)
    if len(found) < 2:
        raise RunError(
            f"a comparison needs two runs or more, and {found[0]} is one: name another, or show it alone "
            f"with `mappa-rl report {found[0]}`."
        )
    return group_runs([read_run(each) for each in found], apart=True)


def _write(path: Path, template: str, page: Any) -> Path:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,  # agents write hostile text
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    text = environment.get_template(template).render(page=page, kinds=KINDS)
    try:
        path.write_text(text, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise RunError(f"{path} cannot be written: {error.strerror or error}.") from None
    return path
