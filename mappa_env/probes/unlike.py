"""Files of agents that are not what their names say: a module that is no Python, a ``.json`` that is no JSON.

Their text is parsed, and nothing of it runs.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from posixpath import splitext
from typing import Any

from mappa_env.errors import WorkspaceError
from mappa_env.pyast import parse_module
from mappa_env.workspace.workspace import Workspace

_LARGEST, _MOST = 2**16, 50
"""Bytes of a file, and files, that are looked into."""


def _parse_json(content: bytes) -> None:
    """Raises ``ValueError`` for what is neither JSON nor JSON Lines, which have the same name at times."""
    try:
        json.loads(content)
    except ValueError:
        lines = [line for line in map(bytes.strip, content.splitlines()) if line]
        if len(lines) < 2:
            raise
        for line in lines:
            json.loads(line)


_PARSERS: dict[str, Callable[[bytes], Any]] = {".py": parse_module, ".json": _parse_json}


def unlike(workspace: Workspace) -> list[str]:
    """The paths of those files; what is too large, or too deep to tell, is not listed."""
    made = [path for path, entry in workspace.present.items() if entry.agent and entry.kind == "file"]
    known = sorted(path for path in made if splitext(path)[1] in _PARSERS)
    return [path for path in known[:_MOST] if _is_unlike(workspace, path)]


def _is_unlike(workspace: Workspace, path: str) -> bool:
    try:
        content = workspace.read(path, _LARGEST)
        _PARSERS[splitext(path)[1]](content)
    except (WorkspaceError, RecursionError, MemoryError):
        return False
    except (SyntaxError, ValueError):
        return True
    return False
