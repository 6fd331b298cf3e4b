"""Python as a tool: the sandbox, in the episode's workspace."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from mappa_env.sandbox.base import Limits, Sandbox
from mappa_env.tools.base import Answer, BaseTool, CallSite, ToolSpec
from mappa_env.types import CallStatus
from mappa_env.workspace.workspace import Workspace

PYTHON = "python"
SPEC = ToolSpec(
    "",
    "Runs a Python script in a fresh interpreter. Files stay; only what is printed can be seen.",
    {
        "type": "object",
        "properties": {"code": {"type": "string", "description": "the script"}},
        "required": ["code"],
    },
)
_SAME = ("ok", "error", "timeout", "output_limit", "unavailable")


class PythonTool(BaseTool):
    """Runs ``code`` in ``place``, with the sandbox's own limits: its calls are not guarded.

    ``Answer.run`` holds all that the host measured. The status of a call knows fewer words than that of a
    run; ``error`` stands for the others.
    """

    guarded = False

    def __init__(self, sandbox: Sandbox, place: Workspace, limits: Limits) -> None:
        self._sandbox, self._place, self._limits = sandbox, place, limits

    def specs(self) -> tuple[ToolSpec, ...]:
        """The one function."""
        return (SPEC,)

    def call(self, name: str, arguments: Mapping[str, Any], site: CallSite) -> Answer:
        """Run the code with the seed of ``site``."""
        run = self._sandbox.run(self._place, arguments["code"], self._limits, seed=site.seed)
        status = cast(CallStatus, run.status if run.status in _SAME else "error")
        return Answer(status, "\n".join(text for text in (run.stdout, run.stderr) if text), run=run)
