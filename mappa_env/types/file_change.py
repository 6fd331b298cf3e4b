"""What an action did to a path of its workspace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

FileOp = Literal["created", "modified", "deleted", "renamed", "type_changed"]


@dataclass(frozen=True, slots=True)
class FileChange:
    """One entry of the file history: what an action did to one path of its workspace (host-attested).

    ``sha256`` is the hex digest or ``"skipped: <why>"``; ``kind`` is ``file``, ``dir``, ``link``, ``fifo``,
    ``socket`` or ``device``. ``agent`` and ``step`` (index in the episode) identify the action. ``links`` is
    the number of names of a file: with more than one (hard links), writing to one changes all. ``mode``: the
    permission bits as the action left them, if it changed them or closed what it made; else None. ``keeps``:
    whether a file that was there still is what its readers count on (``mappa_env.workspace.keeping``); None:
    it was not there, or the host cannot tell. The path ``.`` is the workspace's own folder.
    """

    path: str
    op: FileOp
    size: int
    sha256: str
    kind: str = "file"
    agent: str = ""
    step: int = -1
    links: int = 1
    mode: int | None = None
    keeps: bool | None = None
