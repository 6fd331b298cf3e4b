"""A complete action, and a corrected one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mappa_env.types.team import role_of
from mappa_env.types.tool_call import ToolCall
from mappa_env.types.tool_result import ToolResult
from mappa_env.types.verdict import Verdict

Message = dict[str, str]
"""A chat message: ``{"role": "user" | "assistant" | "system", "content": text}``."""


@dataclass(frozen=True, slots=True)
class CorrectedAction:
    """An action that the coach proposed in place of an agent's, and the result of trying it.

    ``verdict`` is the rubric's verdict on it, and ``was`` the rubric's score of the agent's action (None: no
    score). ``kept``: it is better; otherwise ``reason`` says why it was rejected.
    """

    action: str
    code: str | None
    tool: ToolResult | None
    verdict: Verdict
    was: float | None
    kept: bool
    reason: str


@dataclass(frozen=True, slots=True)
class ActionRecord:
    """One complete action: what the agent saw, wrote and did, its verdict and its reward.

    ``reward`` (0-10) is what the shaping makes of the verdict and the outcome. If there is no score, or the
    reward is pending, ``reward_valid`` is False and ``reward`` is 0.0: mask such actions in training.
    ``thinking`` and ``answer`` are the two halves of ``action``; ``code`` is what ran (None: no code), and
    ``tool`` its run. ``calls`` are the calls of other tools, in the order in which the agent wrote them.
    """

    step: int
    agent: str
    turn: int
    messages: tuple[Message, ...]
    action: str
    thinking: str
    answer: str
    code: str | None
    tool: ToolResult | None
    verdict: Verdict
    reward: float
    reward_valid: bool
    stratum: tuple[str, str, int]
    seed: int
    last_turn: bool
    missing: tuple[str, ...] = ()
    probe: Mapping[str, Any] | None = None
    correction: CorrectedAction | None = None
    calls: tuple[ToolCall, ...] = ()

    @property
    def unavailable(self) -> str:
        """What failed and voids the episode, with its words: the sandbox or a tool. Empty: nothing did."""
        if self.tool is not None and self.tool.status == "unavailable":
            return f"sandbox: {self.tool.stderr.strip() or 'unavailable'}"
        failed = (call for call in self.calls if call.status == "unavailable")
        return next((f"{call.tool}: {call.text.strip() or 'unavailable'}" for call in failed), "")

    @property
    def role(self) -> str:
        """The role of the agent."""
        return role_of(self.agent)
