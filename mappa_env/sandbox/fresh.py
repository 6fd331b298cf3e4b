"""Runs programs of graders and probes, each in a workspace of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mappa_env.errors import SandboxError, WorkspaceError
from mappa_env.sandbox.base import Limits, Sandbox
from mappa_env.types import FreshRun


class FreshRuns:
    """Implements ``mappa_env.grading.base.FreshSandbox`` on any sandbox, with the limits of an action."""

    def __init__(self, sandbox: Sandbox, limits: Limits, seed: int) -> None:
        """``seed`` fixes the random numbers of every run."""
        self._sandbox, self._limits, self._seed = sandbox, limits, seed

    def run(
        self,
        program: str,
        files: Mapping[str, bytes],
        *,
        reads: Sequence[str] = (),
        max_bytes: int = 2**20,
    ) -> FreshRun:
        """See ``FreshSandbox.run``."""
        with self._sandbox.open_workspace() as workspace:
            for name, content in files.items():
                workspace.put(name, content)
            tool = self._sandbox.run(workspace, program, self._limits, seed=self._seed)
            if tool.status == "unavailable":
                raise SandboxError(f"the sandbox was unavailable: {tool.stderr.strip() or 'no reason given'}")
            found = {}
            for name in reads:
                try:
                    found[name] = workspace.read(name, max_bytes)
                except WorkspaceError:  # whatever the code left there: it is not what was asked for
                    continue
        return FreshRun(tool, found)
