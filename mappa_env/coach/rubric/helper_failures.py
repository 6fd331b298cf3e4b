"""Whether a program failed over a file that no card names and that another agent damaged.

The host's observations come first: the file history, and what the program opened. The text of a traceback
only tells such failures from a program's own. An import of a module that is gone opens nothing, so there the
file history alone allows the excuse.
"""

from __future__ import annotations

import re

from mappa_env.coach.program import Program, exception_of
from mappa_env.coach.rubric.helper_files import GONE, LIBRARIES, STANDS_IN, Damage, module_of
from mappa_env.types import ToolResult

_FRAME = re.compile(r'^ *File "([^"\n]+)", line \d+', re.MULTILINE)
_RAISED = re.compile(r"[A-Za-z_][\w.]*Error\b")
_TAIL = 8000
_OF_TEXT = ("SyntaxError", "IndentationError", "TabError")
_UNREADABLE = {"FileNotFoundError", "PermissionError", "IsADirectoryError", "NotADirectoryError", "OSError"}
_INSTALLED = re.compile(r"/(?:site|dist)-packages/|/lib/python[^/]*/")
_MODULES = re.compile(
    r"[mM]odule (?:named )?'([\w.]+)'|<module '([\w.]+)'| from (?:\w+ \w+ module )?'([\w.]+)'"
)
"""The modules that the exceptions of an import, of an attribute and of a pickle name."""


def failed_over(run: Program, damage: Damage) -> bool:
    """Whether a program failed over a helper that is damaged: over importing it, within it, or reading it."""
    if run.tool.status != "error":
        return False
    if damage.how == STANDS_IN:
        return _over_library(run, damage.path)
    return _over_module(run, damage) or _over_content(run, damage)


def _over_module(run: Program, damage: Damage) -> bool:
    module = module_of(damage.path)
    if not module:
        return False
    if damage.how in GONE:
        return module in _named(run.tool)
    if not run.uses(damage.met):
        return False
    if _within(run, damage.met) or module in _named(run.tool):
        return True
    # The program's own text had no error when it opened the module.
    return exception_of(run.tool)[0] in _OF_TEXT and (run.tool.opened or ("",))[-1] == damage.met


def _over_content(run: Program, damage: Damage) -> bool:
    if run.failed_reading(damage.path):
        return True
    gone = damage.how in GONE and exception_of(run.tool)[0] in _UNREADABLE
    return gone and run.uses(damage.path)


def _over_library(run: Program, path: str) -> bool:
    """Whether it failed over a module of the workspace that has the name of a library."""
    if module_of(path) not in LIBRARIES or not run.uses(path):
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
