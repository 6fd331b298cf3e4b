"""Whether a file that was written again still is what its readers count on: an appended log, a longer module.

The host parses texts and runs nothing. What it cannot tell from the kind of file that the name says, such as
other content in a pickle, is not known.
"""

from __future__ import annotations

import ast
import csv
import json
from collections.abc import Callable, Iterator
from posixpath import splitext

from mappa_env.pyast import parse_module

LARGEST = 2**16
"""Bytes of a file that is compared."""
_PACKED = {".pkl", ".pickle", ".joblib", ".npy", ".npz", ".parquet", ".so", ".pyc"}


def comparable(path: str, size: int) -> bool:
    """Whether files of this name and size are compared."""
    return size <= LARGEST and splitext(path)[1] not in _PACKED


def keeps(path: str, was: bytes, now: bytes) -> bool | None:
    """Whether what ``was`` in a file, and what its name says, is in it ``now``; None: the host cannot tell.

    A module keeps its statements and gets at most functions, classes and constants with names of their own. A
    JSON object keeps its keys with values of the same types, a JSON list its beginning, a CSV its columns.
    Texts stay texts, and a number a number. What is appended to a file of another kind leaves it as it was.
    """
    if was == now:
        return True
    compare = _KINDS.get(splitext(path)[1], _begins)
    try:
        return compare(was, now)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _begins(was: bytes, now: bytes) -> bool | None:
    return True if was and now.startswith(was) else None


def _module(was: bytes, now: bytes) -> bool:
    try:
        after = parse_module(now).body
    except (SyntaxError, ValueError):
        return False
    old, bound = [ast.dump(node) for node in parse_module(was).body], set[str]()
    for node in parse_module(was).body:
        bound.update(_names(node))
    at = 0
    for node in after:
        if at < len(old) and ast.dump(node) == old[at]:
            at += 1
        elif not _is_harmless(node) or bound.intersection(_names(node)):
            return False
    return at == len(old)


def _is_harmless(node: ast.stmt) -> bool:
    """Whether a statement only adds a name: it can hardly fail when the module is imported."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        given = [*node.args.defaults, *filter(None, node.args.kw_defaults)]
        return not node.decorator_list and all(isinstance(each, ast.Constant) for each in given)
    if isinstance(node, ast.ClassDef):
        return not (node.decorator_list or node.bases or node.keywords) and all(map(_is_harmless, node.body))
    if isinstance(node, ast.Assign):
        return isinstance(node.value, ast.Constant)
    return isinstance(node, ast.Pass) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))


def _names(node: ast.stmt) -> Iterator[str]:
    """The names that a statement of a module binds."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name
        return
    for each in ast.walk(node):
        if isinstance(each, ast.alias):
            yield (each.asname or each.name).partition(".")[0]
        elif isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store):
            yield each.id


def _json(was: bytes, now: bytes) -> bool:
    try:
        old = json.loads(was)
    except ValueError:  # JSON Lines, say
        return bool(was) and now.startswith(was)
    try:
        new = json.loads(now)
    except ValueError:
        return False
    if isinstance(old, dict) and isinstance(new, dict):
        return all(key in new and type(new[key]) is type(value) for key, value in old.items())
    if isinstance(old, list) and isinstance(new, list):
        return new[: len(old)] == old
    return type(old) is type(new) and not isinstance(old, dict | list)


def _csv(was: bytes, now: bytes) -> bool:
    old, new = (next(csv.reader(content.decode().splitlines()), []) for content in (was, now))
    rows = [len([line for line in content.splitlines() if line.strip()]) for content in (was, now)]
    return bool(new) and set(old) <= set(new) and (rows[1] > 1 or rows[0] <= 1)


def _text(was: bytes, now: bytes) -> bool:
    text = now.decode()
    if not text.strip() or "\0" in text:
        return not was.strip()
    return not _is_number(was) or _is_number(now)


def _is_number(content: bytes) -> bool:
    try:
        float(content)
    except ValueError:
        return False
    return True


_KINDS: dict[str, Callable[[bytes, bytes], bool | None]] = {
    ".py": _module,
    ".json": _json,
    ".csv": _csv,
    **dict.fromkeys((".txt", ".log", ".md"), _text),
}
