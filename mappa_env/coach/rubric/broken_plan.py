"""A plan that Python cannot carry out, and whether that is how a program ended.

Not the program's text decides, but how it ended: with the exception that the plan itself raises, which the
host derives from the plan without running it. So it does not matter how a program words the plan, and a plan
that it only quotes excuses nothing.
"""

from __future__ import annotations

import ast
import builtins
import math
import re
from collections.abc import Iterator

from mappa_env.coach.program import exception_of
from mappa_env.coach.rubric.claims_math import Statement, python_of
from mappa_env.grading.expression import failure_of
from mappa_env.pyast import parse_expression
from mappa_env.types import ToolResult

_KNOWN = {*dir(builtins), *dir(math)}
_NAMED = re.compile(r"name '(\w+)' is not defined|has no attribute '(\w+)'")
_WORDS = re.compile(r"\w\s+\w")
"""Words, which are no attempt at an expression: to turn them into code is up to the program."""
_ENDLESS = {"timeout", "memory", "killed"}


def stopped(plan: Statement | None, tool: ToolResult) -> bool:
    """Whether ``tool`` failed as ``plan``, which has no value, fails by itself."""
    if plan is None or plan.number is not None or tool.status in ("ok", "unavailable"):
        return False
    name, line = exception_of(tool)
    source = python_of(plan.text)
    failure = failure_of(source)
    if failure == "MemoryError":
        too_long = name == "ValueError" and "integer string conversion" in line
        return tool.status in _ENDLESS or too_long or name in ("MemoryError", "OverflowError")
    if tool.status != "error":
        return False
    if failure is not None:
        return name == failure
    if named := _NAMED.search(line):
        return (named[1] or named[2]) in set(_unknown(source))
    return name == "SyntaxError" and line.partition(": ")[2] in set(_complaints(source))


def _unknown(source: str) -> Iterator[str]:
    """The names in an expression that Python does not define."""
    try:
        tree = parse_expression(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for node in ast.walk(tree):
        name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
        if name and name not in _KNOWN:
            yield name


def _complaints(source: str) -> Iterator[str]:
    """What the parser says of an expression, alone or in brackets; nothing if it is one, or words."""
    for text in (source, f"f({source})"):
        try:
            if source and not _WORDS.search(source):
                parse_expression(text)
        except SyntaxError as error:
            yield str(error.msg)
        except (ValueError, RecursionError, MemoryError):
            return
