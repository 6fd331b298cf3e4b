"""Whether a program failed over the kind of thing in a file: a list or an array, say, where it takes a frame.

What an exception says and the text of the program can only withhold the excuse.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from typing import Any

from mappa_env.coach.program import Program, exception_of
from mappa_env.coach.rubric.artifacts import PATHS

FRAMES = ("DataFrame", "Series")
_TYPES = {"ndarray": r"numpy\.ndarray"}
_LACKS = re.compile(r"object has no attribute '(\w+)'")
_INDEXED = re.compile(
    r"(\w+ indices must be|only integers, slices|sparse \w+ length is ambiguous|Index dimension)"
)
_LINE = re.compile(r'^ *File "<action>", line (\d+)', re.M)
_READS = re.compile(r"\w*load\w*|open|\w*read\w*|\w*Unpickler")
_SAME = ("copy", "astype")
"""Methods that yield another thing of the same kind."""


def is_bare(part: Mapping[str, Any]) -> bool:
    """Whether a file holds a table that is none of pandas: a fit takes it, but it lacks what frames have."""
    return part.get("table") is True and part.get("type", FRAMES[0]) not in FRAMES


def failed_over_kind(run: Program, path: str, kind: str) -> bool | None:
    """Whether a program failed because ``path`` holds a ``kind``; None: perhaps, as nobody can tell.

    It used the file, its exception is one that such a thing raises, and what raised it is a name in its code
    to which something was read.
    """
    if not run.failed or not run.uses(path):
        return False
    name, said = exception_of(run.tool)
    lacks = _LACKS.search(said) if name == "AttributeError" else None
    named = re.search(rf"'(?:{_TYPES.get(kind, re.escape(kind))})' object", said)
    if not (named and lacks) and not (name in ("TypeError", "IndexError") and _INDEXED.search(said)):
        return False
    places = _LINE.findall(run.tool.stderr)
    try:
        tree = ast.parse(run.code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    if not places:
        return None
    used = set(_used(tree, int(places[-1]), lacks[1] if lacks else None))
    known = [_is_read(tree, name, path) for name in used]
    return True if True in known else None if None in known else False


def _used(tree: ast.Module, line: int, attribute: str | None) -> Iterator[str]:
    """The names on a line whose ``attribute`` is asked for; None: that are indexed or measured.

    Empty: something that is read on the spot.
    """
    for node in ast.walk(tree):
        owner = _owner(node, attribute)
        if owner is None or not owner.lineno <= line <= (owner.end_lineno or line):
            continue
        if isinstance(owner, ast.Name):
            yield owner.id
        elif isinstance(owner, ast.Call) and _reads(owner):
            yield ""


def _owner(node: ast.AST, attribute: str | None) -> ast.expr | None:
    if isinstance(node, ast.Attribute):
        return node.value if node.attr == attribute else None
    if attribute is None and isinstance(node, ast.Subscript):
        return node.value
    if attribute is None and isinstance(node, ast.Call) and getattr(node.func, "id", "") == "len":
        return node.args[0] if node.args else None
    return None


def _is_read(tree: ast.Module, name: str, path: str, deep: int = 3) -> bool | None:
    """Whether ``name`` has what was read from ``path``; None: nobody can tell."""
    found: list[bool | None] = [] if name else [None]
    for node in ast.walk(tree):
        if isinstance(node, ast.arg):
            found += [None] * (node.arg == name)
        elif isinstance(node, (ast.For, ast.comprehension)):
            found += [None] * (name in _names(node.target))
        elif isinstance(node, ast.Assign) and any(name in _names(target) for target in node.targets):
            value = _source(node.value)
            if not isinstance(value, ast.Name):
                found.append(_holds(tree, node, path))
            elif value.id != name and deep:
                found.append(_is_read(tree, value.id, path, deep - 1))
    return True if True in found else None if None in found else False


def _source(value: ast.expr) -> ast.expr:
    """What a part or a copy is of."""
    while True:
        if isinstance(value, ast.Subscript):
            value = value.value
        elif (
            isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in _SAME
        ):
            value = value.func.value
        else:
            return value


def _holds(tree: ast.Module, assigned: ast.Assign, path: str) -> bool | None:
    """Whether an assignment reads ``path``, by the names of files in it or in the ``with`` around it."""
    blocks = [node for node in ast.walk(tree) if isinstance(node, ast.With) and assigned in node.body]
    texts = [
        text for node in (assigned.value, *(i for b in blocks for i in b.items)) for text in _texts(node)
    ]
    files = [file for file in PATHS.values() if file in texts or file.removesuffix(".pkl") in texts]
    if any(isinstance(node, ast.Call) and _reads(node) for node in ast.walk(assigned.value)):
        return path in files if files else None
    return False


def _reads(call: ast.Call) -> bool:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    return _READS.fullmatch(name) is not None


def _names(target: ast.expr) -> set[str]:
    return {node.id for node in ast.walk(target) if isinstance(node, ast.Name)}


def _texts(value: ast.AST) -> list[str]:
    return [
        node.value
        for node in ast.walk(value)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
