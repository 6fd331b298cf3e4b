"""A sandbox that runs nothing: for measuring what the environment itself costs."""

from __future__ import annotations

from mappa_env.sandbox.base import Limits, Result
from mappa_env.workspace import Workspace

_NOTHING = Result("ok", 0, "", "", isolation="null")


class NullSandbox:
    name = "null"
    isolation = "null"

    def run(self, workspace: Workspace, code: str, limits: Limits, *, seed: int = 0) -> Result:
        return _NOTHING

    def open_workspace(self) -> Workspace:
        return Workspace()

    def close(self) -> None:
        return None
