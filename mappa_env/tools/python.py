"""Python as a tool, as agents see it: the episode runs its code in the sandbox."""

from __future__ import annotations

from mappa_env.tools.base import ToolSpec

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
