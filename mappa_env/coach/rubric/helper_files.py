"""Files that no card names: modules and data that agents leave for each other, and who damaged them."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from mappa_env.types import ActionRecord, FileChange, Task, Team, ToolResult

LIBRARIES = sys.stdlib_module_names | {
    *("numpy", "pandas", "scipy", "sklearn", "joblib", "sympy", "matplotlib", "seaborn", "statsmodels"),
    *("lightgbm", "xgboost", "catboost", "pyarrow", "polars", "torch", "tqdm", "yaml", "requests"),
}
"""Names under which programs expect a library, wherever they run."""
_CACHE = "__pycache__"
_READABLE = 0o400
_MUCH = 4
"""What leaves less than this part of a module has not worked on it."""
GONE = {"deleted", "moved", "closed"}
"""What leaves nothing of a helper that a program could open."""
STANDS_IN = "put in place of a library"


class Run(NamedTuple):
    """The run ``tool`` of an action at ``step`` of ``agent``."""

    agent: str
    step: int
    tool: ToolResult


class Damage(NamedTuple):
    """``agent`` did to ``path``, a file of ``author``, what ``how`` says, at ``step``.

    ``hider``: the file that programs meet in its place, if that is another one.
    """

    path: str
    author: str
    agent: str
    step: int
    how: str
    hider: str = ""

    @property
    def met(self) -> str:
        """The file that a program opens which needs the helper."""
        return self.hider or self.path


class _File(NamedTuple):
    author: str
    change: FileChange


def runs_of(records: Iterable[ActionRecord]) -> list[Run]:
    """The runs among the actions."""
    return [Run(record.agent, record.step, record.tool) for record in records if record.tool is not None]


def named_by(task: Task, team: Team) -> set[str]:
    """The files that the task brings, and that a card gives to an agent."""
    return {*task.files, *(path for spec in team for path in (*spec.reads, *spec.requires))}


def module_of(path: str) -> str:
    """The name under which a program imports a file, or the package around it; empty: it cannot."""
    name, _, suffix = path.partition("/")[0].partition(".")
    folder = "/" in path and not suffix
    return name if path.endswith((".py", ".so")) and (folder or "/" not in path) else ""


def damages(runs: Iterable[Run], task: Task, team: Team) -> list[Damage]:
    """The damage that agents did to helpers of others, and that nobody has repaired since.

    A file that still is what its readers count on is not damaged: a log that others append to, say. Who
    writes a file again that another agent damaged is its author from then on.
    """
    files, found, named = dict[str, _File](), dict[str, Damage](), named_by(task, team)
    for run in runs:
        for change in run.tool.files:
            path = change.path
            if path in named or _CACHE in path.split("/"):
                continue
            for other, how in _also(change, files):
                if files[other].author != run.agent:
                    hider = "" if how in GONE else path
                    found[other] = Damage(other, files[other].author, run.agent, run.step, how, hider)
            held, hit = files.get(path), found.get(path)
            if held is None or held.author == run.agent:
                found.pop(path, None)
                if change.op == "deleted" or (held is None and change.kind == "dir"):
                    files.pop(path, None)
                else:
                    files[path] = _File(run.agent, change)
            elif hit is not None and hit.agent != run.agent:  # it repairs the file, or clears it away
                if change.op != "deleted":
                    files[path] = _File(run.agent, change)
                    found.pop(path)
            elif (hit is not None or not change.keeps) and (done := _harm(held.change, change)) is not None:
                if (
                    done == "deleted"
                    and not module_of(path)
                    and any(_holds(other, held.change) for other in run.tool.files)
                ):
                    done = "moved"
                found[path] = Damage(path, held.author, run.agent, run.step, done)
            else:
                found.pop(path, None)
    return list(found.values())


def _harm(was: FileChange, now: FileChange) -> str | None:
    """What a change did to a file; None: it left the content as its author made it."""
    if now.op == "deleted" or now.kind != was.kind:
        return "deleted"
    if now.mode is not None and not now.mode & _READABLE:
        return "closed"
    if now.sha256 == was.sha256 and now.size == was.size:
        return None
    cut = now.size * _MUCH < was.size and module_of(now.path)
    return "emptied" if cut or not now.size else "overwritten"


def _holds(change: FileChange, was: FileChange) -> bool:
    """Whether a change made a file with the same content."""
    return change.op != "deleted" and change.kind == was.kind == "file" and change.sha256 == was.sha256


def _also(change: FileChange, files: Mapping[str, _File]) -> Iterator[tuple[str, str]]:
    """What a change does to other files: in a folder that it closes, or of a module that comes after it."""
    if change.kind == "dir":
        if change.mode is not None and not change.mode & _READABLE:
            yield from ((path, "closed") for path in files if path.startswith(f"{change.path}/"))
    elif change.op != "deleted" and change.path not in files:
        name, hides = module_of(change.path), change.path.endswith(("/__init__.py", ".so"))
        if name and hides and f"{name}.py" in files:
            yield f"{name}.py", f"hidden by {change.path}"
