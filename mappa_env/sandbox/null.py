"""A sandbox that runs nothing, to measure the cost of the environment itself."""

from __future__ import annotations

from mappa_env.sandbox.base import Limits, Result
from mappa_env.workspace.workspace import Workspace

_NOTHING = Result("ok", 0, "", "", isolation="null")


class NullSandbox:
    """Answers every action with ``ok`` and no output."""

    name = "null"
    isolation = "null"

    def run(self, workspace: Workspace, code: str, limits: Limits, *, seed: int = 0) -> Result:
        """Return ``ok`` without running the code."""
        return _NOTHING

    def open_workspace(self) -> Workspace:
        """A plain folder, for the task's files."""
        return Workspace()

    def close(self) -> None:
        """Do nothing: there is nothing to free."""
        return None
