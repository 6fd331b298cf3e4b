"""One call of a tool, as the host saw it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

CallStatus = Literal["ok", "error", "timeout", "output_limit", "unavailable", "refused"]
"""The words of ``RunStatus``, and ``refused``: the host did not carry the call out."""
Attester = Literal["host", "server"]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call of a tool other than Python, whose runs are ``ActionRecord.tool``.

    Host-attested: ``status``, ``seconds``, and ``facts`` (JSON values that the host found out itself, such as
    the ``documents`` that its own search returned). ``text`` is the result; ``attester`` says whose word it
    is: the host's, or that of a server outside. ``omitted`` is the number of characters cut from its middle.
    Agent-controlled: ``tool``, as the agent named it, and ``arguments``.
    """

    tool: str
    arguments: Mapping[str, Any]
    status: CallStatus
    text: str = ""
    attester: Attester = "host"
    seconds: float = 0.0
    omitted: int = 0
    facts: Mapping[str, Any] = field(default_factory=dict)
