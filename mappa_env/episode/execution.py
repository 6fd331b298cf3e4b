"""Executes an action and collects the facts about it: code, files, probe, grade."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

from mappa_env.cards import Card
from mappa_env.episode.limits import TaskLimits
from mappa_env.grading.base import Answers, Grader
from mappa_env.parsing import parse
from mappa_env.probes import Site, make_probe
from mappa_env.sandbox.base import Sandbox
from mappa_env.seeds import derived_seed
from mappa_env.types import (
    ActionRecord,
    AgentSpec,
    Evidence,
    Message,
    Outcome,
    Space,
    Task,
    ToolResult,
    Use,
    Verdict,
)
from mappa_env.workspace.snapshot import MAX_ENTRIES
from mappa_env.workspace.workspace import Workspace

PENDING = Verdict("pending", None, "not judged yet")


class ActionContext(NamedTuple):
    """The state of an episode before an action, and what its agent sees.

    ``turn`` is the index of the action among the agent's; ``left``: how many its segment may still have, with
    this one. ``seed`` is the episode's.
    """

    task: Task
    agent: AgentSpec
    turn: int
    left: int
    messages: tuple[Message, ...]
    prompt: str
    history: tuple[ActionRecord, ...]
    seed: int


Timer = Callable[[str], AbstractContextManager[object]]
"""``timer(kind)`` is the context manager around work of that kind: ``sandbox`` or ``coach``."""


def _untimed(kind: str) -> AbstractContextManager[object]:
    return nullcontext()


class Execution:
    """Executes an episode's own actions, and corrected actions in a copy of the workspace."""

    def __init__(
        self, card: Card, sandbox: Sandbox, limits: TaskLimits, grader: Grader, *, probed: bool
    ) -> None:
        """``probed``: run the card's probe, if it has one, on files that later agents read."""
        self._card, self.sandbox, self.limits, self._grader = card, sandbox, limits, grader
        self._probe = make_probe(card.probe) if card.probe and probed else None
        self.timer: Timer = _untimed
        self._handed_on = {name for spec in card.team for name in spec.reads}

    def open_workspace(self, task: Task) -> Workspace:
        """Open a new workspace with the task's files."""
        workspace = self.sandbox.open_workspace()
        for name, content in task.files.items():
            workspace.put(name, content)
        return workspace

    def run(self, at: ActionContext, text: str, workspace: Callable[[], Workspace]) -> ActionRecord:
        """Execute ``text``; calls ``workspace`` only if there is code. The record's verdict is pending."""
        spec, step = at.agent, len(at.history)
        parsed = parse(text, tools="python" in spec.tools)
        seed = _seed(at.seed, spec.name, at.turn)
        tool: ToolResult | None = None
        missing: tuple[str, ...] = ()
        if parsed.code is not None:
            place = workspace()
            missing = tuple(path for path in spec.reads if path not in place.present)
            limits, before = self.limits.of(at.task), place.use()
            with self.timer("sandbox"):
                tool = self.sandbox.run(place, parsed.code, limits, seed=seed)
            place.record(tool.files, spec.name, step)
            files = tuple(dataclasses.replace(f, agent=spec.name, step=step) for f in tool.files)
            quota = Use((limits.disk_mb << 20) + place.given_bytes, MAX_ENTRIES)
            tool = dataclasses.replace(tool, files=files, space=Space(quota, before, place.use()))
        return ActionRecord(
            step,
            spec.name,
            at.turn,
            at.messages,
            parsed.text,
            parsed.thinking,
            parsed.answer,
            parsed.code,
            tool,
            PENDING,
            0.0,
            False,
            (at.task.family, spec.role, at.turn),
            seed,
            parsed.code is None or at.left <= 1,
            missing,
        )

    def outcome(self, at: ActionContext, draft: ActionRecord, workspace: Workspace | None) -> Outcome | None:
        """The outcome if ``draft`` closes the episode, else None."""
        over = draft.last_turn and self._card.order.over((*at.history, draft))
        return self._grade(at, draft, workspace) if over else None

    def answer(self, actions: Sequence[ActionRecord]) -> str | None:
        """The final answer; None if the grader has no discrete answers."""
        return self._grader.answer(actions) if isinstance(self._grader, Answers) else None

    def evidence(
        self, at: ActionContext, draft: ActionRecord, workspace: Workspace | None, outcome: Outcome | None
    ) -> Evidence:
        """The evidence about ``draft``, which has just been executed in ``workspace``."""
        name = at.agent.name
        facts: Mapping[str, Any] | None = None
        written = {change.path for change in draft.tool.files} if draft.tool else set()
        closing = outcome is not None
        if not draft.last_turn and (self._probe or name in self._card.truth):
            closing = self._card.order.would_be_over((*at.history, draft))
        if self._probe and workspace is not None and (self._handed_on & written if closing else written):
            seed = self._next_seed(at, draft)
            with self.timer("sandbox"):
                facts = self._probe.look(
                    Site(self.sandbox, workspace, at.task, self.limits.of(at.task), seed)
                )
        provisional = outcome
        if provisional is None and closing and name in self._card.truth:
            provisional = self._grade(at, draft, workspace)
        return Evidence(
            task=at.task,
            agent=at.agent,
            turn=draft.turn,
            step=draft.step,
            prompt=at.prompt,
            action=draft.action,
            code=draft.code,
            tool=draft.tool,
            last_turn=draft.last_turn,
            history=at.history,
            present=dict(workspace.present) if workspace else {},
            missing=draft.missing,
            probe=facts,
            outcome=outcome,
            provisional_outcome=provisional,
            truth=at.task.truth if name in self._card.truth else None,
        )

    def _next_seed(self, at: ActionContext, draft: ActionRecord) -> int:
        """The seed of the next segment's first action: a file can tell by the seed who loads it."""
        after = self._card.order.next((*at.history, dataclasses.replace(draft, last_turn=True)))
        agent, number = (at.agent.name, 0) if after is None else (after.agent.name, after.number)
        return _seed(at.seed, agent, number)

    def _grade(self, at: ActionContext, draft: ActionRecord, workspace: Workspace | None) -> Outcome:
        actions: Sequence[ActionRecord] = (*at.history, draft)
        if any(a.tool is not None and a.tool.status == "unavailable" for a in actions):
            return Outcome(0.0, False, "unavailable", "the sandbox was unavailable; the team is not to blame")
        return self._grader.grade(at.task, actions, workspace)


def _seed(episode: int, agent: str, turn: int) -> int:
    return derived_seed(episode, agent, turn, bits=31)
