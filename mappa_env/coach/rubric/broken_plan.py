"""A plan that Python cannot carry out, and whether that is how a program ended.

No words decide, but how the program ended, and what exception the plan raises, which the host derives
without running it. A program that crashes with another exception fails by itself; one that prints no value,
and does not crash, was stopped by the plan if its code computes with the plan's numbers and names
(``plans.use``): else it did not try. So it does not matter how a program words the plan or its failure, and a
plan that it only quotes excuses no crash.
"""

from __future__ import annotations

import ast
import builtins
import dataclasses
import math
import re
from collections.abc import Iterator

from mappa_env.coach.program import exception_of, exceptions_of
from mappa_env.coach.rubric.claims_math import Statement, failure_in, output_of, python_of
from mappa_env.coach.rubric.plans.use import uses_plan
from mappa_env.coach.rubric.plans.value import plan_value
from mappa_env.pyast import parse_expression
from mappa_env.types import ToolResult

_KNOWN = {*dir(builtins), *dir(math)}
_NAMED = re.compile(r"name '(\w+)' is not defined|has no attribute '(\w+)'")
_WORDS = re.compile(r"\w\s+\w")
"""Words, which are no attempt at an expression: to turn them into code is up to the program."""
_ENDLESS = {"timeout", "memory", "killed"}


def stopped(plan: Statement | None, tool: ToolResult, code: str | None) -> bool:
    """Whether ``tool``, the run of ``code``, printed no value because ``plan`` has none."""
    if plan is None or plan.number is not None or tool.status == "unavailable":
        return False
    if tool.status == "ok" or (tool.status == "error" and not _crashed(tool)):
        if failure_in(plan) is None or not uses_plan(code or "", python_of(plan.text)):
            return False
        printed = output_of("", dataclasses.replace(tool, status="ok"), plan)
        return printed is None or printed.number is None
    source = python_of(plan.text)
    failure = failure_in(plan)
    name, line = exception_of(tool)
    if failure == "MemoryError" or plan_value(source).large:
        too_long = name == "ValueError" and "integer string conversion" in line
        return tool.status in _ENDLESS or too_long or name in ("MemoryError", "OverflowError")
    if tool.status != "error":
        return False
    if failure not in (None, "NameError"):
        return failure in {name for name, _ in exceptions_of(tool)}
    named = [match for _, line in exceptions_of(tool) if (match := _NAMED.search(line))]
    if named:
        return any((match[1] or match[2]) in set(_unknown(source)) for match in named)
    return name == "SyntaxError" and line.partition(": ")[2] in set(_complaints(source))


def _crashed(tool: ToolResult) -> bool:
    """Whether Python reported an exception that nobody caught; else the program itself chose to end."""
    return bool(exception_of(tool)[0]) and any(mark in tool.stderr for mark in ("Traceback", '  File "'))


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
