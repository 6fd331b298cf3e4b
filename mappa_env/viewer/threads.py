"""Threads from the action that wrote a file to the actions that name it in their code."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from mappa_env.types import ActionRecord


@dataclass(frozen=True, slots=True)
class Thread:
    """``path``, as action ``writer`` left it, is named by the code of the actions ``readers``."""

    path: str
    writer: int
    readers: tuple[int, ...]


def threads(actions: Sequence[ActionRecord]) -> list[Thread]:
    """The threads of an episode, in the order in which the files were written.

    A program that names a file may still not open it: the host does not watch what is read.
    """
    newest: dict[str, int] = {}
    readers: dict[tuple[int, str], list[int]] = {}
    for step, action in enumerate(actions):
        for path, writer in newest.items():
            if action.code and _names(action.code, path):
                readers[writer, path].append(step)
        if action.tool is not None:
            for path in action.tool.deleted:
                newest.pop(path, None)
            for path in action.tool.written:
                newest[path] = step
                readers[step, path] = []
    return [Thread(path, writer, tuple(found)) for (writer, path), found in readers.items() if found]


def _names(code: str, path: str) -> bool:
    return path in code and re.search(rf"(?<![\w.-]){re.escape(path)}(?![\w-])", code) is not None
