"""What it takes to carry an action out, and to say what it really did: code, files, probe, grade."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from mappa_env.cards import Card
from mappa_env.coach.evidence import missing_inputs, unbacked_claims
from mappa_env.grading.base import Answers, Grader
from mappa_env.parsing import parse
from mappa_env.probing import probe
from mappa_env.sandbox.base import Limits, Sandbox
from mappa_env.types import ActionRecord, AgentSpec, Evidence, Message, Outcome, Task, ToolResult, Verdict
from mappa_env.workspace import Workspace

PENDING = Verdict("pending", None, "not judged yet")


class Place(NamedTuple):
    """Where in an episode an action stands: what it follows, and what its agent sees.

    ``seed`` is the episode's; ``last_seat``: this agent closes the episode.
    """

    task: Task
    agent: AgentSpec
    turn: int
    messages: tuple[Message, ...]
    prompt: str
    history: tuple[ActionRecord, ...]
    seed: int
    last_seat: bool


class Execution:
    """The same for an episode's own actions and for those that are only tried in a scratch copy."""

    def __init__(self, card: Card, sandbox: Sandbox, limits: Limits, grader: Grader, *, probed: bool) -> None:
        """``probed``: look into the files that agents hand on, where the card has a probe."""
        self._card, self.sandbox, self._limits, self._grader = card, sandbox, limits, grader
        self._probe = card.probe if probed else None
        self._handed_on = {name for spec in card.team for name in spec.reads}

    def open_workspace(self, task: Task) -> Workspace:
        """A new workspace with the files of the task."""
        workspace = self.sandbox.open_workspace()
        for name, content in task.files.items():
            workspace.put(name, content)
        return workspace

    def run(self, at: Place, text: str, workspace: Callable[[], Workspace]) -> ActionRecord:
        """Carry ``text`` out; ``workspace`` is asked for only where there is code. The verdict is pending."""
        spec, step = at.agent, len(at.history)
        parsed = parse(text, tools="python" in spec.tools)
        seed = _action_seed(at.seed, spec.name, at.turn)
        tool: ToolResult | None = None
        missing: tuple[str, ...] = ()
        if parsed.code is not None:
            place = workspace()
            missing = missing_inputs(spec, place.present)
            tool = self.sandbox.run(place, parsed.code, self._limits, seed=seed)
            place.record(tool.files, spec.name, step)
            if tool.files:
                files = tuple(dataclasses.replace(f, agent=spec.name, step=step) for f in tool.files)
                tool = dataclasses.replace(tool, files=files)
        return ActionRecord(
            step, spec.name, at.turn, at.messages, parsed.text, parsed.thinking, parsed.answer,
            parsed.code, tool, PENDING, 0.0, False, (at.task.family, spec.role, at.turn), seed,
            parsed.code is None or at.turn + 1 >= spec.max_turns,
            unbacked_claims(parsed.answer, tool.stdout if tool else "", _written(tool)), missing,
        )  # fmt: skip

    def outcome(self, at: Place, draft: ActionRecord, workspace: Workspace | None) -> Outcome | None:
        """How the episode ends with ``draft``; None: it goes on."""
        return self._grade(at, draft, workspace) if at.last_seat and draft.last_turn else None

    def answer(self, actions: Sequence[ActionRecord]) -> str | None:
        """The final answer, where the grader knows such a thing."""
        return self._grader.answer(actions) if isinstance(self._grader, Answers) else None

    def evidence(
        self, at: Place, draft: ActionRecord, workspace: Workspace | None, outcome: Outcome | None
    ) -> Evidence:
        """What a coach may rely on about ``draft``, which has just been carried out in ``workspace``."""
        name = at.agent.name
        facts: Mapping[str, Any] | None = None
        if self._probe and workspace is not None and self._handed_on.intersection(_written(draft.tool)):
            facts = probe(self.sandbox, workspace, self._probe, self._limits)
        standing = outcome
        if standing is None and at.last_seat and name in self._card.truth:
            standing = self._grade(at, draft, workspace)
        return Evidence(
            task=at.task, agent=at.agent, turn=draft.turn, step=draft.step, prompt=at.prompt,
            action=draft.action, code=draft.code, tool=draft.tool, last_turn=draft.last_turn,
            history=at.history, present=dict(workspace.present) if workspace else {},
            missing=draft.missing, claims=draft.claims, probe=facts, outcome=outcome,
            standing=standing, truth=at.task.truth if name in self._card.truth else None,
        )  # fmt: skip

    def _grade(self, at: Place, draft: ActionRecord, workspace: Workspace | None) -> Outcome:
        actions: Sequence[ActionRecord] = (*at.history, draft)
        if any(a.tool is not None and a.tool.status == "unavailable" for a in actions):
            return Outcome(0.0, False, "unavailable", "the sandbox was unavailable: not the team's doing")
        return self._grader.grade(at.task, actions, workspace)


def _written(tool: ToolResult | None) -> tuple[str, ...]:
    return tuple(f.path for f in tool.files if f.op != "deleted") if tool else ()


def _action_seed(seed: int, agent: str, turn: int) -> int:
    """31 bits from (episode seed, agent, turn): the same action of the same episode always draws the same."""
    digest = hashlib.blake2b(f"{seed}/{agent}/{turn}".encode(), digest_size=4).digest()
    return int.from_bytes(digest, "little") >> 1
