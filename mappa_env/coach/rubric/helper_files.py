"""Files that no card names: modules and data that agents leave for each other, and who damaged them."""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from mappa_env.coach.program import BLUNDERS, Program, exception_of
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
OVERWRITTEN, MOVED = "overwritten", "moved"
_FRAME = re.compile(r'^ *File "([^"\n]+)", line \d+', re.MULTILINE)
_RAISED = re.compile(r"[A-Za-z_][\w.]*Error\b")
_TAIL = 8000
_OF_TEXT = ("SyntaxError", "IndentationError", "TabError")
_INSTALLED = re.compile(r"/(?:site|dist)-packages/|/lib/python[^/]*/")
_MODULES = re.compile(
    r"[mM]odule (?:named )?'([\w.]+)'|<module '([\w.]+)'| from (?:\w+ \w+ module )?'([\w.]+)'"
)
"""The modules that the exceptions of an import, of an attribute and of a pickle name."""


class Run(NamedTuple):
    """The run ``tool`` of an action at ``step`` of ``agent``."""

    agent: str
    step: int
    tool: ToolResult


class Damage(NamedTuple):
    """``agent`` did to ``path``, a file of ``author``, what ``how`` says, at ``step``."""

    path: str
    author: str
    agent: str
    step: int
    how: str


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

    Who writes a file again that another agent damaged is its author from then on.
    """
    files, found, named = dict[str, _File](), dict[str, Damage](), named_by(task, team)
    for run in runs:
        for change in run.tool.files:
            path = change.path
            if path in named or _CACHE in path.split("/"):
                continue
            for other, how in _also(change, files):
                if files[other].author != run.agent:
                    found[other] = Damage(other, files[other].author, run.agent, run.step, how)
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
            elif (done := _harm(held.change, change)) is not None:
                if (
                    done == "deleted"
                    and not module_of(path)
                    and any(_holds(other, held.change) for other in run.tool.files)
                ):
                    done = MOVED
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
    return "emptied" if cut or not now.size else OVERWRITTEN


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


def failed_over(run: Program, path: str) -> bool:
    """Whether a program failed over a helper that is damaged: over importing it, within it, or using it."""
    if run.tool.status != "error":
        return False
    module = module_of(path)
    if module and (_within(run, path) or module in _named(run.tool)):
        return True
    # Its own text had no error when it opened the module.
    if module and exception_of(run.tool)[0] in _OF_TEXT and (run.tool.opened or ("",))[-1] == path:
        return True
    return exception_of(run.tool)[0] not in BLUNDERS and run.uses(path)


def stands_in(run: Program, path: str) -> bool:
    """Whether a program failed over a module of the workspace that has the name of a library."""
    if run.tool.status != "error" or module_of(path) not in LIBRARIES:
        return False
    return _within(run, path) or f"/{path})" in exception_of(run.tool)[1]


def _named(tool: ToolResult) -> set[str]:
    """The modules that the exceptions of a run name: the last one, and those that led to it."""
    lines = "\n".join(line for line in tool.stderr[-_TAIL:].splitlines() if _RAISED.match(line))
    return {next(filter(None, found.groups())).partition(".")[0] for found in _MODULES.finditer(lines)}


def _within(run: Program, path: str) -> bool:
    """Whether the traceback ends in that file of the workspace, or passed through it."""
    frames = (file for file in _FRAME.findall(run.tool.stderr) if not _INSTALLED.search(file))
    return any(file == path or file.endswith(f"/{path}") for file in frames)


def needed(damage: Damage, unlike: Collection[str] = ()) -> bool:
    """Whether the host can tell that a helper is for others, and that they lost it.

    ``unlike``: files that are no longer what their names say, such as a module that is no Python.

    A module is, and so is data that its author left in the workspace itself; libraries put their caches into
    folders or hide them. Who moves data or writes other content over it may mean well, or use the same name
    by chance: that is harm only once somebody fails over it.
    """
    if damage.how == MOVED or (damage.how == OVERWRITTEN and damage.path not in unlike):
        return False
    return bool(module_of(damage.path)) or not ("/" in damage.path or damage.path.startswith("."))
