"""``safe_value``: the exact value of a short arithmetic expression, from any text, without running it."""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable
from fractions import Fraction

from mappa_env.pyast import parse_expression

Number = int | Fraction

MAX_LENGTH = 240
MAX_DEPTH = 40
MAX_BITS = 256
"""Values with longer numerators or denominators (about 77 decimal digits) are refused."""

_ALPHABET = re.compile(r"[0-9a-z+\-*/%(), ]+")
_GLUED = re.compile(
    r"[0-9][a-z]|[a-z][0-9]"
)  # 1e9, 0x10, x2: not in the language, and some make the parser warn


class _NoValue(Exception):
    """The expression is outside the language or its bounds."""


def safe_value(expr: str) -> Number | None:
    """Return the exact value of ``expr``, or None if it has none. Never raises, never takes long.

    The language: decimal integers, ``+ - * / // % **``, brackets, ``gcd lcm comb perm factorial isqrt pow
    abs min max`` and ``sum(range(...))``. ``/`` is exact (a Fraction); a whole result is always an ``int``.
    """
    expr = expr.strip() if len(expr) <= 4 * MAX_LENGTH else ""
    if len(expr) > MAX_LENGTH or not _ALPHABET.fullmatch(expr) or _GLUED.search(expr):
        return None
    try:
        return _whole(_eval(parse_expression(expr).body, 0))
    except (_NoValue, SyntaxError, ValueError, ArithmeticError, RecursionError, MemoryError):
        return None


def _eval(node: ast.expr, depth: int) -> Number:
    if depth > MAX_DEPTH:
        raise _NoValue
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return _bounded(node.value)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
        value = _eval(node.operand, depth + 1)
        return -value if isinstance(node.op, ast.USub) else value
    if isinstance(node, ast.BinOp):
        left, right = _eval(node.left, depth + 1), _eval(node.right, depth + 1)
        return _bounded(_whole(_binary(node.op, left, right)))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
        return _bounded(_call(node.func.id, node.args, depth + 1))
    raise _NoValue


_OPERATORS: dict[type[ast.operator], Callable[[Number, Number], Number]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


def _binary(op: ast.operator, left: Number, right: Number) -> Number:
    if isinstance(op, ast.Div):
        return Fraction(left) / Fraction(right)
    if isinstance(op, ast.Pow):
        if not isinstance(right, int) or not 0 <= right <= MAX_BITS or _bits(left) * right > 2 * MAX_BITS:
            raise _NoValue
        return Fraction(left) ** right if isinstance(left, Fraction) else int(left**right)
    if type(op) not in _OPERATORS:
        raise _NoValue
    return _OPERATORS[type(op)](left, right)


def _call(name: str, nodes: list[ast.expr], depth: int) -> Number:
    if name == "sum":
        return _sum_of_range(nodes, depth)
    values = [_eval(node, depth) for node in nodes]
    if not values:
        raise _NoValue
    if name in ("min", "max") and len(values) > 1:
        return min(values) if name == "min" else max(values)
    if name == "abs" and len(values) == 1:
        return values[0] if values[0] >= 0 else -values[0]
    whole = [value for value in values if isinstance(value, int)]
    if len(whole) < len(values):
        raise _NoValue
    if name in ("gcd", "lcm"):
        return math.gcd(*whole) if name == "gcd" else _bounded(math.lcm(*whole))
    if name == "isqrt" and len(whole) == 1:
        return math.isqrt(whole[0])
    if name in ("comb", "perm") and len(whole) == 2 and max(whole) <= 2 * MAX_BITS:
        return math.comb(*whole) if name == "comb" else math.perm(*whole)
    if name == "factorial" and len(whole) == 1 and whole[0] <= MAX_BITS:
        return math.factorial(whole[0])
    if name == "pow" and len(whole) == 2:
        return _binary(ast.Pow(), *whole)
    if name == "pow" and len(whole) == 3:
        return pow(*whole)
    raise _NoValue


def _sum_of_range(nodes: list[ast.expr], depth: int) -> int:
    """``sum(range(...))`` in closed form: no loop, whatever the bounds."""
    if len(nodes) != 1 or not isinstance(call := nodes[0], ast.Call) or call.keywords:
        raise _NoValue
    if not isinstance(call.func, ast.Name) or call.func.id != "range" or not 1 <= len(call.args) <= 3:
        raise _NoValue
    bounds = [_eval(node, depth) for node in call.args]
    whole = [bound for bound in bounds if isinstance(bound, int) and _bits(bound) < 62]
    if len(whole) < len(bounds):
        raise _NoValue
    terms = range(*whole)
    return len(terms) * (terms[0] + terms[-1]) // 2 if terms else 0


def _bits(value: Number) -> int:
    return max(abs(value.numerator).bit_length(), value.denominator.bit_length())


def _bounded(value: Number) -> Number:
    if _bits(value) > MAX_BITS:
        raise _NoValue
    return value


def _whole(value: Number) -> Number:
    return int(value) if value.denominator == 1 else value
