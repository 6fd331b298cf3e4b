"""The sandbox protocol: run one action's code in its workspace and report only host-attested facts."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from mappa_env.errors import OptionError, nearest
from mappa_env.types import ToolResult as Result

if TYPE_CHECKING:
    from mappa_env.workspace.workspace import Workspace

__all__ = ["Limits", "Result", "Sandbox"]

_MOST = 1e9
"""Above any limit: what a computation with it may overflow is far off."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one action, in seconds and MiB. ``Result.status`` names the limit that was exceeded."""

    wall_s: float = 30.0
    cpu_s: float = 60.0
    memory_mb: int = 2048
    disk_mb: int = 256
    processes: int = 64
    output_kb: int = 64
    """KiB of each stream that are kept: half from the head, half from the tail."""
    output_cap_mb: int = 8
    """MiB; an action whose stdout or stderr exceeds this ends with ``output_limit``."""

    @classmethod
    def checked(cls, where: str, values: Mapping[str, Any]) -> dict[str, Any]:
        """``values`` by name, if they can be limits. Raises OptionError; ``where`` begins its message."""
        kinds = {field.name: field.type for field in dataclasses.fields(cls)}
        for name, value in values.items():
            if name not in kinds:
                raise OptionError(
                    f"{where}: there is no limit {name!r}; choose from {', '.join(kinds)}."
                    + nearest(str(name), kinds)
                )
            whole = kinds[name] == "int"
            if type(value) not in ((int,) if whole else (int, float)) or not 0 < value < _MOST:
                kind = "integer" if whole else "number"
                raise OptionError(f"{where}.{name} must be a positive {kind} below 1e9, found {value!r:.80}.")
        return dict(values)


class Sandbox(Protocol):
    """Runs actions. State passes between actions only through files of the workspace."""

    name: str

    @property
    def isolation(self) -> str:
        """The isolation of this sandbox, as in ``Result.isolation``."""
        ...

    def run(self, workspace: Workspace, code: str, limits: Limits, *, seed: int = 0) -> Result:
        """Run ``code`` as ``__main__`` with the workspace as working directory.

        Never raises for anything the code does. ``Result.files`` is the diff of the workspace, taken after
        every process of the action is dead; ``Result.opened`` is what an ``ActionFile`` got back, or None.
        ``seed`` fixes ``random`` and legacy numpy. String
        hashes are the same in every action and every sandbox.
        """
        ...

    def open_workspace(self) -> Workspace:
        """Open a workspace that this sandbox can run code in."""
        ...

    def close(self) -> None:
        """Free what only this object uses; a shared pool stays open."""
        ...
