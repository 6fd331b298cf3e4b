"""The measured result of running an action's code."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from mappa_env.types.file_change import FileChange
from mappa_env.types.space import Space

RunStatus = Literal["ok", "error", "timeout", "memory", "killed", "output_limit", "disk_limit", "unavailable"]


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The measured result of running an action's code. Times in seconds, ``peak_rss`` in bytes.

    ``wall_s`` begins when the action starts; ``queued_s`` is the wait for a free slot before that.

    ``truncated`` is the number of dropped output bytes. ``isolation`` names the level at which the code ran;
    ``trust`` says who attests the facts: ``"kernel"`` (this host) or ``"sandbox"`` (a remote one). ``space``:
    who uses the workspace's quota; None where nobody recorded it, as outside an episode.

    ``opened``: the paths in the workspace that the code opened or asked for, whether they exist or not, and
    the folders that it listed (``"folder/"``; ``"./"`` is the workspace). The last one opened comes last. It
    is noted inside the sandbox, so it shows no more than that the code could have opened them. None where
    something may have gone unseen: the code started another program that may open files, or touched too many
    names, or the sandbox does not observe it.
    """

    status: RunStatus
    exit_code: int | None
    stdout: str
    stderr: str
    truncated: int = 0
    wall_s: float = 0.0
    cpu_s: float = 0.0
    peak_rss: int = 0
    files: tuple[FileChange, ...] = ()
    isolation: str = "none"
    trust: str = "kernel"
    queued_s: float = 0.0
    space: Space | None = None
    opened: tuple[str, ...] | None = None

    @property
    def written(self) -> tuple[str, ...]:
        """The paths that the run created or changed, in order, without folders."""
        return tuple(change.path for change in self.files if change.op != "deleted" and change.kind != "dir")

    @property
    def deleted(self) -> tuple[str, ...]:
        """The paths that the run deleted or replaced by a folder, in order, without folders."""
        return tuple(
            change.path
            for change in self.files
            if change.op == ("type_changed" if change.kind == "dir" else "deleted")
        )
