"""What Python makes of a planned expression: its value, or the exception that it raises.

Nothing is run: a walk over the syntax tree knows some operators and functions, counts its steps and bounds
the size of all values. Attributes and other statements are not in its language.
"""

from __future__ import annotations

import ast
import builtins
import math
import operator
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

from mappa_env.grading.expression import Number
from mappa_env.pyast import parse_expression

_LONGEST = 900
_DEPTH = 40
_STEPS = 20_000
_ITEMS = 10_000
_BITS = 14_000
"""Python prints integers up to 4,300 digits, which have more bits than this."""
_ENDLESS_BITS = 10**8


class PlanValue(NamedTuple):
    """``number``, or the ``failure``: the exception's class and message. Neither: the host cannot tell.

    ``large``: because what it computes is too large to try.
    """

    number: Number | None = None
    failure: str | None = None
    message: str = ""
    large: bool = False


class _Unknown(Exception):
    """It is outside the language or its bounds."""


class _TooLarge(_Unknown):
    """A value is beyond the bounds of size."""


class _Raised(Exception):
    """Python would raise ``name`` here."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(name, message)
        self.name, self.message = name, message


def is_expression(source: str) -> bool:
    """Whether ``source`` is a Python expression that computes something: no name alone, no list, no words."""
    tree = _parsed(source)
    return isinstance(
        tree, (ast.BinOp, ast.UnaryOp, ast.Call, ast.IfExp, ast.Compare, ast.BoolOp, ast.Subscript)
    )


@lru_cache(maxsize=4096)
def plan_value(source: str, names: tuple[tuple[str, Number], ...] = ()) -> PlanValue:
    """Evaluate ``source``, which ``python_of`` has cleaned. Never raises, never takes long.

    ``names``: the values of names, as (name, value).
    """
    tree = _parsed(source)
    if tree is None:
        return PlanValue()
    try:
        value = _Walk().value(tree, {name: _plain(each) for name, each in names}, 0)
    except _Raised as error:
        return PlanValue(None, error.name, error.message) if is_expression(source) else PlanValue()
    except _TooLarge:
        return PlanValue(large=True)
    except (_Unknown, RecursionError, MemoryError):
        return PlanValue()
    if type(value) is int:
        return PlanValue(value)
    if type(value) is float and math.isfinite(value):
        exact = value.as_integer_ratio()
        return PlanValue(exact[0] if exact[1] == 1 else Fraction(*exact))
    return PlanValue()


def _plain(value: Number) -> int | float:
    return value if isinstance(value, int) else float(value)


@lru_cache(maxsize=4096)
def _parsed(source: str) -> ast.expr | None:
    if not source or len(source) > _LONGEST:
        return None
    try:
        return parse_expression(source).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
# fmt: off
_OF_MATH = (
    "sqrt", "isqrt", "gcd", "lcm", "comb", "perm", "factorial", "ceil", "floor", "trunc", "log",
    "log2", "log10", "exp", "sin", "cos", "tan", "asin", "acos", "atan", "atan2", "degrees",
    "radians", "hypot", "fabs", "fmod", "pow",
)
# fmt: on
_ON_NUMBERS: dict[str, Callable[..., Any]] = {name: getattr(math, name) for name in _OF_MATH} | {
    "abs": abs,
    "round": round,
    "divmod": divmod,
    "float": float,
    "int": int,
    "bool": bool,
}
_ON_LISTS: dict[str, Callable[..., Any]] = {
    "sum": sum,
    "min": min,
    "max": max,
    "len": len,
    "prod": math.prod,
    "sorted": sorted,
    "list": list,
    "tuple": tuple,
    "set": set,
    "any": any,
    "all": all,
    "range": range,
}
_CONSTANTS = {"pi": math.pi, "e": math.e, "tau": math.tau}
# fmt: off
_LIBRARIES = {
    "math", "cmath", "np", "numpy", "sp", "sympy", "scipy", "fractions", "decimal", "statistics",
    "itertools", "functools", "operator", "Fraction", "Decimal", "Rational", "Integer", "reduce",
    "product", "combinations", "permutations", "Counter", "mean", "median", "prime", "isprime",
    "factorint",
}
# fmt: on
"""Names that a program may import before it carries the plan out; as plain values they are unknown."""


class _Walk:
    def __init__(self) -> None:
        self._steps = 0

    def value(self, node: ast.expr, names: dict[str, Any], depth: int) -> Any:
        self._steps += 1
        if depth > _DEPTH or self._steps > _STEPS:
            raise _Unknown
        if isinstance(node, ast.Constant) and type(node.value) in (int, float, bool, str):
            return self._bounded(node.value)
        if isinstance(node, ast.Name):
            return self._named(node.id, names)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
            operand = self._number(self.value(node.operand, names, depth + 1))
            return -operand if isinstance(node.op, ast.USub) else +operand
        if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
            left = self.value(node.left, names, depth + 1)
            right = self.value(node.right, names, depth + 1)
            return self._binary(node.op, self._number(left), self._number(right))
        if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
            items = [self.value(item, names, depth + 1) for item in node.elts]
            return {ast.List: list, ast.Tuple: tuple, ast.Set: set}[type(node)](items)
        if isinstance(node, (ast.ListComp, ast.GeneratorExp, ast.SetComp)):
            found = list(self._comprehension(node.elt, node.generators, names, depth + 1))
            return set(found) if isinstance(node, ast.SetComp) else found
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _COMPARE:
            left = self.value(node.left, names, depth + 1)
            right = self.value(node.comparators[0], names, depth + 1)
            return _COMPARE[type(node.ops[0])](self._number(left), self._number(right))
        if isinstance(node, ast.BoolOp):
            return self._either(node, names, depth)
        if isinstance(node, ast.IfExp):
            chosen = node.body if self.value(node.test, names, depth + 1) else node.orelse
            return self.value(chosen, names, depth + 1)
        if isinstance(node, ast.Call) and not node.keywords:
            return self._call(node, names, depth + 1)
        if isinstance(node, ast.Subscript):
            return self._item(self.value(node.value, names, depth + 1), node.slice, names, depth + 1)
        if isinstance(node, ast.Attribute):
            if isinstance(node.value, ast.Name):
                self._named(node.value.id, names, used=True)
            else:
                self.value(node.value, names, depth + 1)  # raises what its object raises
        raise _Unknown

    def _either(self, node: ast.BoolOp, names: dict[str, Any], depth: int) -> Any:
        value: Any = None
        for each in node.values:
            value = self.value(each, names, depth + 1)
            if bool(value) == isinstance(node.op, ast.Or):
                break
        return value

    def _item(self, values: Any, index: ast.expr, names: dict[str, Any], depth: int) -> Any:
        """One item; slices and other containers than these are unknown."""
        at = self.value(index, names, depth)
        if not isinstance(values, (list, tuple, range)) or not isinstance(at, int):
            raise _Unknown
        if not -len(values) <= at < len(values):
            raise _Raised("IndexError", f"{type(values).__name__} index out of range")
        return values[at]

    @staticmethod
    def _named(name: str, names: dict[str, Any], *, used: bool = False) -> Any:
        """The value of a name; ``used``: it is called, or has an attribute."""
        if name in names:
            return names[name]
        if name in _CONSTANTS:
            return _CONSTANTS[name]
        if (used and name in _LIBRARIES) or hasattr(builtins, name) or hasattr(math, name):
            raise _Unknown
        raise _Raised("NameError", f"name '{name}' is not defined")

    def _comprehension(
        self, item: ast.expr, loops: list[ast.comprehension], names: dict[str, Any], depth: int
    ) -> Iterator[Any]:
        if not loops:
            yield self.value(item, names, depth)
            return
        loop, *rest = loops
        if loop.is_async or not isinstance(loop.target, ast.Name):
            raise _Unknown
        for each in self._iterable(self.value(loop.iter, names, depth)):
            self._steps += 1
            inner = names | {loop.target.id: each}
            if self._steps <= _STEPS and not all(self.value(test, inner, depth) for test in loop.ifs):
                continue
            yield from self._comprehension(item, rest, inner, depth + 1)

    def _binary(self, op: ast.operator, left: float, right: float) -> Any:
        whole = isinstance(op, ast.Pow) and isinstance(left, int) and isinstance(right, int)
        bits = int(left).bit_length() * int(right) if whole and abs(left) > 1 else 0
        if bits > _ENDLESS_BITS:
            raise _Raised("MemoryError", "")
        if bits > _BITS:
            raise _TooLarge
        return self._bounded(_tried(_BINARY[type(op)], left, right))

    def _call(self, node: ast.Call, names: dict[str, Any], depth: int) -> Any:
        if not isinstance(node.func, ast.Name):
            if isinstance(node.func, ast.Attribute):
                self.value(node.func, names, depth)
            self._number(self.value(node.func, names, depth))
            raise _Raised("TypeError", "object is not callable")
        name = node.func.id
        if name in names or not (name in _ON_NUMBERS or name in _ON_LISTS):
            self._named(name, names, used=True)
            raise _Unknown
        values = [self.value(each, names, depth) for each in node.args]
        if name in _ON_LISTS:
            return self._over(name, values)
        if name in ("int", "float") and len(values) == 1 and isinstance(values[0], str):
            return self._bounded(_tried(_ON_NUMBERS[name], values[0]))
        numbers = [self._number(value) for value in values]
        sizes = numbers if name in ("comb", "perm", "factorial") else numbers[1:] if name == "round" else []
        if any(abs(each) > _BITS // 8 for each in sizes):
            raise _TooLarge
        if name == "pow" and len(numbers) > 1 and all(isinstance(value, int) for value in numbers):
            if len(numbers) == 3 and max(map(_size, numbers)) > 2000:
                raise _Unknown
            if len(numbers) == 3:
                return self._bounded(_tried(pow, *numbers))
            return self._binary(ast.Pow(), *numbers) if len(numbers) == 2 else _tried(pow, *numbers)
        return self._bounded(_tried(_ON_NUMBERS[name], *numbers))

    def _over(self, name: str, values: list[Any]) -> Any:
        if name == "range":
            return self._iterable(_tried(range, *[self._number(value) for value in values]))
        if any(isinstance(value, str) for value in values):
            raise _Unknown
        for value in values:
            if isinstance(value, (list, tuple, set, range)):
                for each in self._iterable(value):
                    self._steps += 1
                    if not isinstance(each, (int, float)) and name not in ("len", "list", "tuple"):
                        raise _Unknown
        if self._steps > _STEPS:
            raise _Unknown
        listed = [value for value in values if isinstance(value, (list, tuple, set, range))]
        if name == "prod" and sum(_size(each) for value in listed for each in value) > _BITS:
            raise _TooLarge
        return self._bounded(_tried(_ON_LISTS[name], *values))

    @staticmethod
    def _iterable(value: Any) -> Any:
        if isinstance(value, (list, tuple, set, range)) and _length(value) <= _ITEMS:
            return value
        raise _Unknown

    @staticmethod
    def _number(value: Any) -> Any:
        if isinstance(value, (int, float)):
            return value
        raise _Unknown

    @staticmethod
    def _bounded(value: Any) -> Any:
        if isinstance(value, (str, list, tuple, set, range)) or _size(value) <= _BITS:
            return value
        raise _TooLarge


def _length(value: Any) -> int:
    try:
        return len(value)
    except OverflowError:
        return _ITEMS + 1


def _size(value: Any) -> int:
    if isinstance(value, complex) or not isinstance(value, (int, float)):
        raise _Unknown
    return int(value).bit_length() if isinstance(value, int) else 64


def _tried(function: Callable[..., Any], *values: Any) -> Any:
    try:
        return function(*values)
    except (ArithmeticError, ValueError, TypeError) as error:
        raise _Raised(type(error).__name__, str(error)) from None
