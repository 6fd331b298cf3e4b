"""The tool protocol: what an agent may call, and what comes back."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from mappa_env.types import Attester, CallStatus

__all__ = ["Answer", "BaseTool", "CallLimits", "CallSite", "Tool", "ToolSpec"]


@dataclass(frozen=True, slots=True)
class CallLimits:
    """Limits of a tool's calls. A call beyond one is refused, or ends with the status that names it."""

    wall_s: float = 10.0
    """Seconds that one call may take."""
    result_chars: int = 8000
    """Characters of a result that the agent sees: half from the head, half from the tail."""
    result_cap_kb: int = 4096
    """KiB; a call whose result exceeds this ends with ``output_limit``."""
    per_action: int = 8
    """Calls in one action."""
    per_episode: int = 64
    """Calls of all agents in one episode."""


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """What an agent may call. ``parameters`` is a JSON schema of type ``object``.

    ``name`` is empty for a tool with one function; else agents call ``<tool>.<name>``.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]

    @property
    def properties(self) -> Mapping[str, Any]:
        """The schema of each argument, by name."""
        found = self.parameters.get("properties")
        return found if isinstance(found, Mapping) else {}

    @property
    def required(self) -> tuple[str, ...]:
        """The arguments that a call must have."""
        found = self.parameters.get("required")
        return tuple(name for name in found if isinstance(name, str)) if isinstance(found, list) else ()

    @property
    def only_text(self) -> str:
        """The argument that a fence's text becomes: the only required one, if it is a string; else empty."""
        required = self.required
        schema = self.properties.get(required[0]) if len(required) == 1 else None
        return required[0] if isinstance(schema, Mapping) and schema.get("type") == "string" else ""


@dataclass(frozen=True, slots=True)
class CallSite:
    """Where a call happens: who calls, in which step, with which seed and limits. It holds no truth."""

    agent: str
    step: int
    seed: int
    limits: CallLimits
    deadline: float = field(default=0.0)
    """When the call has to end, by ``time.monotonic()``."""

    @property
    def left(self) -> float:
        """Seconds until the deadline, at least 0."""
        return max(self.deadline - time.monotonic(), 0.0)


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a call. ``facts``: JSON values that the host found out itself; see ``ToolCall``."""

    status: CallStatus
    text: str
    facts: Mapping[str, Any] = field(default_factory=dict)


class Tool(Protocol):
    """A tool of a card. ``attester``: whose word its results are.

    ``guarded``: the host runs its calls in a thread of their own and stops waiting at the deadline. A tool
    that keeps the deadline by itself does without.
    """

    attester: Attester
    guarded: bool

    def open(self) -> None:
        """Connect, before the first prompt. May be called again. Raises ToolError if that is impossible."""
        ...

    def specs(self) -> Sequence[ToolSpec]:
        """What agents may call; the same for as long as the tool lives."""
        ...

    def call(self, name: str, arguments: Mapping[str, Any], site: CallSite) -> Answer | str:
        """Carry out one call; ``name`` is that of a spec, and ``arguments`` fit its schema's names and types.

        Agents choose ``arguments``, so they may hold anything. An exception becomes the status ``error`` with
        its message as the result; ToolUnavailable becomes ``unavailable``, which voids the episode: raise it
        only where the agent's words cannot be the cause.
        """
        ...

    def close(self) -> None:
        """Release connections and processes. May be called twice."""
        ...


class BaseTool:
    """Base class of tools with one function: set ``description`` and ``parameters`` and write ``call``.

    ``parameters`` maps each argument to its JSON schema. All are required unless ``optional`` names them.
    """

    attester: Attester = "host"
    guarded = True
    description = ""
    parameters: Mapping[str, Mapping[str, Any]] = {}
    optional: tuple[str, ...] = ()

    def open(self) -> None:
        """Do nothing."""
        return None

    def specs(self) -> Sequence[ToolSpec]:
        """The one function."""
        schema = {
            "type": "object",
            "properties": {name: dict(schema) for name, schema in self.parameters.items()},
            "required": [name for name in self.parameters if name not in self.optional],
        }
        return (ToolSpec("", self.description, schema),)

    def call(self, name: str, arguments: Mapping[str, Any], site: CallSite) -> Answer | str:
        """See ``Tool.call``."""
        raise NotImplementedError(f"{type(self).__name__} must implement call().")

    def close(self) -> None:
        """Do nothing."""
        return None
