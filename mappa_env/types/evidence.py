"""What a coach may rely on about an action."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mappa_env.types.action import ActionRecord
from mappa_env.types.file_change import FileChange
from mappa_env.types.outcome import Outcome
from mappa_env.types.task import Task
from mappa_env.types.team import AgentSpec
from mappa_env.types.tool_call import ToolCall
from mappa_env.types.tool_result import ToolResult


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that a coach may rely on about one action.

    Host-attested: ``tool`` (status, exit code, files, space), ``present`` (path -> last change of every file
    now in the workspace, with its writer; task files have ``agent=""``), ``missing`` (inputs of this agent
    that no agent wrote), ``probe`` (facts from the separate sandboxed probe, None if none ran), ``outcome``
    (only for the closing action), ``provisional_outcome`` (the grade if the episode ended with this action;
    only if the card allows the truth, and in a chain only for the closing agent), ``follows`` (with that
    grade: how far the submission goes together with what the team's model predicts, 0 to 1; None: it cannot
    be told).
    Noted inside the sandbox: ``tool.opened``, which shows no more than that the code could have opened it.
    Agent-controlled: ``action``, ``tool.stdout``, ``tool.stderr``. ``calls`` are this action's calls of other
    tools; each says who attests its text.
    ``truth`` is the task's hidden truth if the card allows it for this agent's verdicts, else None.
    ``last_turn``: whether this action ends the segment.
    """

    task: Task
    agent: AgentSpec
    turn: int
    step: int
    prompt: str
    action: str
    code: str | None
    tool: ToolResult | None
    last_turn: bool
    history: tuple[ActionRecord, ...] = ()
    present: Mapping[str, FileChange] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    probe: Mapping[str, Any] | None = None
    outcome: Outcome | None = None
    provisional_outcome: Outcome | None = None
    truth: Mapping[str, Any] | None = None
    calls: tuple[ToolCall, ...] = ()
    follows: float | None = None

    @property
    def stratum(self) -> tuple[str, str, int]:
        """(task family, role, turn): the key of the coach's bias statistics."""
        return (self.task.family, self.agent.role, self.turn)
