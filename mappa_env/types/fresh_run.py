"""A program that the host's own part ran next to agents' code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from mappa_env.types.tool_result import ToolResult


class FreshRun(NamedTuple):
    """``tool``: how the program ran. ``files``: the contents of the files that were asked for.

    Agents' code ran in the same process, so all of it may be made up: believe none of it, and compare on the
    host.
    """

    tool: ToolResult
    files: Mapping[str, bytes]
