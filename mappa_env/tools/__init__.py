"""Tools by name. A tool is imported when a card that has it is first used."""

from __future__ import annotations

from mappa_env import plugins
from mappa_env.tools.base import Answer, BaseTool, CallLimits, CallSite, Tool, ToolSpec

__all__ = ["TOOLS", "Answer", "BaseTool", "CallLimits", "CallSite", "Tool", "ToolSpec"]

TOOLS = plugins.Kind(
    name="tool",
    option="use",
    group="mappa.tools",
    builtin={
        "search": "mappa_env.tools.search:SearchTool",
        "retriever": "mappa_env.tools.retriever:RetrieverTool",
        "mcp": "mappa_env.tools.mcp.tool:McpTool",
    },
    methods={"open": (0, ()), "specs": (0, ()), "call": (3, ()), "close": (0, ())},
    attributes={"attester": str, "guarded": bool},
    advice="Subclass mappa_env.tools.BaseTool and write call(self, name, arguments, site).",
)
