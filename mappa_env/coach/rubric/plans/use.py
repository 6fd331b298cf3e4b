"""Whether a program tries to carry out a plan: whether its code computes with what the plan is made of.

Words do not count, so ``print("hello")`` and ``raise SystemExit("blocked")`` are no tries, in any language.
To write the plan's numbers where they are not used is no less work than to try.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator

from mappa_env.pyast import parse_expression, parse_module

_LONGEST = 50_000
_SPARED = 3
"""Of so many numbers and names of a plan, a program may leave out one."""
_EVALUATES = {"eval", "exec", "compile", "literal_eval", "sympify", "parse_expr", "simplify", "S", "N", "run"}


def uses_plan(code: str, source: str) -> bool:
    """Whether ``code`` has the numbers and names of ``source``, the expression of a plan.

    It has them in a string, too, if it evaluates strings; and digits in a string are a number. True for what
    this Python cannot parse.
    """
    wanted = _parts_of(source)
    if wanted is None:
        return True
    found = _parts_in(code)
    return found is None or len(wanted - found) <= len(wanted) // _SPARED


@functools.lru_cache(maxsize=256)
def _parts_of(source: str) -> frozenset[object] | None:
    try:
        return frozenset(_parts(parse_expression(source), evaluates=False))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


@functools.lru_cache(maxsize=256)
def _parts_in(code: str) -> frozenset[object] | None:
    if len(code) > _LONGEST:
        return None
    try:
        tree = parse_module(code.encode("utf-8", "surrogatepass"))
        called = {_name(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
        return frozenset(_parts(tree, evaluates=bool(called & _EVALUATES)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _parts(tree: ast.AST, *, evaluates: bool) -> Iterator[object]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Name | ast.Attribute):
            yield _name(node)
        elif not isinstance(node, ast.Constant) or isinstance(node.value, bool | None):
            continue
        elif isinstance(node.value, int | float):
            yield node.value
        elif isinstance(node.value, str) and node.value.strip().isdecimal() and len(node.value) < 80:
            yield int(node.value)
        elif isinstance(node.value, str) and evaluates:
            try:
                yield from _parts(parse_expression(node.value.strip()), evaluates=False)
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                continue


def _name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
