"""The sandbox protocol: run one action's code in its workspace and report only host-attested facts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from mappa_env.types import ToolResult as Result

if TYPE_CHECKING:
    from mappa_env.workspace import Workspace

__all__ = ["Limits", "Result", "Sandbox"]


@dataclass(frozen=True, slots=True)
class Limits:
    """Per-action limits. Seconds and MiB; every limit that strikes is named in ``Result.status``."""

    wall_s: float = 30.0
    cpu_s: float = 60.0
    memory_mb: int = 2048
    disk_mb: int = 256
    processes: int = 64
    output_kb: int = 64
    """Bytes of each stream that are kept: half from the head, half from the tail."""
    output_cap_mb: int = 8
    """A stream that grows past this ends the action with ``output_limit``."""


class Sandbox(Protocol):
    """State passes between actions through files of the workspace only."""

    name: str

    @property
    def isolation(self) -> str:
        """The level that code runs under here, as in ``Result.isolation``."""
        ...

    def run(self, workspace: Workspace, code: str, limits: Limits, *, seed: int = 0) -> Result:
        """Run ``code`` as ``__main__`` with the workspace as working directory.

        Never raises for anything the code does. ``Result.files`` is the diff of the workspace, taken after
        every process of the action is dead. ``seed`` fixes ``random``, legacy numpy and the hash seed.
        """
        ...

    def open_workspace(self) -> Workspace:
        """A new workspace of the kind that this sandbox runs code in."""
        ...

    def close(self) -> None: ...
