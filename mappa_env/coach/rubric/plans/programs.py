"""The programs that a text quotes: what they assign to ``answer`` or ``result`` is no answer of the text."""

from __future__ import annotations

import ast
import re

from mappa_env.pyast import parse_module

_LONGEST = 20_000
_FENCED = re.compile(r"^[ \t]*```+[ \t]*(\w*)[^\n]*\n(.*?)^[ \t]*```+[ \t]*$", re.MULTILINE | re.DOTALL)
_PYTHON = frozenset(("python", "py", "python3"))


def without_programs(text: str) -> str:
    """``text`` without the fenced blocks that are Python: by their tag, or because they compute a name."""
    return _FENCED.sub(lambda block: "" if _is_program(block[1], block[2]) else block[0], text[-_LONGEST:])


def _is_program(tag: str, body: str) -> bool:
    if tag.lower() in _PYTHON:
        return True
    try:
        tree = parse_module(body.encode("utf-8", "surrogatepass"))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return any(
        isinstance(node, ast.Assign) and not isinstance(node.value, ast.Constant) for node in tree.body
    )
