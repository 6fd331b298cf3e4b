"""Python's parser, used by one thread at a time.

CPython 3.11 counts the depth of AST construction per interpreter, not per thread: two threads that parse at
once can end in ``SystemError: AST constructor recursion depth mismatch`` (python/cpython#106905).
``inspect.signature`` parses too, for every class without an ``__init__`` of its own.
"""

from __future__ import annotations

import ast
import inspect
import threading
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

_Parsed = TypeVar("_Parsed")

_ONE_AT_A_TIME = threading.RLock()
_AGENTS = "<an agent's file>"
_RETRIES = 5
"""The lock cannot hold other packages' threads; whoever they disturb parses again."""


def parse_expression(text: str) -> ast.Expression:
    """``ast.parse(text, mode="eval")``, from any thread. Raises what it raises."""
    return _alone(lambda: ast.parse(text, mode="eval"))


def parse_module(content: bytes) -> ast.Module:
    """``ast.parse(content)`` of an agent's file, from any thread. Raises what it raises, and never warns."""

    def parse() -> ast.Module:
        warnings.filterwarnings("ignore", module=_AGENTS)  # before all other filters
        return ast.parse(content, _AGENTS)

    return _alone(parse)


def signature(of: Callable[..., Any]) -> inspect.Signature:
    """``inspect.signature(of)``, from any thread. Raises what it raises."""
    return _alone(lambda: inspect.signature(of))


def _alone(parse: Callable[[], _Parsed]) -> _Parsed:
    for _ in range(_RETRIES):
        try:
            with _ONE_AT_A_TIME:
                return parse()
        except SystemError:
            continue
    return parse()
