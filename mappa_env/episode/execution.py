"""Executes an action and collects the facts about it: code, calls, files, probe, grade."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

from mappa_env.cards import Card
from mappa_env.data.stamps import Stamps, check_unchanged
from mappa_env.errors import DataError, DataWarning, SandboxError, WorkspaceError
from mappa_env.grading import Grader, running
from mappa_env.grading.base import Answers
from mappa_env.grading.following import followed
from mappa_env.parsing import Action, joined, parse
from mappa_env.probes import Site, make_probe
from mappa_env.probes.doubt import is_doubtful
from mappa_env.sandbox.base import Limits, Sandbox
from mappa_env.sandbox.fresh import FreshRuns
from mappa_env.seeds import derived_seed
from mappa_env.tools.calls import Written, find_calls
from mappa_env.tools.python import PYTHON
from mappa_env.tools.toolbox import Toolbox
from mappa_env.types import (
    ActionRecord,
    AgentSpec,
    Evidence,
    Message,
    Outcome,
    Space,
    Task,
    ToolCall,
    ToolResult,
    Use,
    Verdict,
)
from mappa_env.types.revised import revised
from mappa_env.workspace.snapshot import MAX_ENTRIES
from mappa_env.workspace.workspace import Workspace

PENDING = Verdict("pending", None, "not judged yet")


class ActionContext(NamedTuple):
    """The state of an episode before an action, and what its agent sees.

    ``turn`` is the index of the action among the agent's; ``left``: how many its segment may still have, with
    this one. ``seed`` is the episode's, ``limits`` those of the task, ``stamps`` those of its files.
    """

    task: Task
    agent: AgentSpec
    turn: int
    left: int
    messages: tuple[Message, ...]
    prompt: str
    history: tuple[ActionRecord, ...]
    seed: int
    limits: Limits
    stamps: Stamps


Timer = Callable[[str], AbstractContextManager[object]]
"""``timer(kind)`` is the context manager around work of that kind: ``sandbox`` or ``coach``."""


_NO_TIMER = nullcontext()


def _untimed(kind: str) -> AbstractContextManager[object]:
    return _NO_TIMER


class Execution:
    """Executes an episode's own actions, and corrected actions in a copy of the workspace."""

    def __init__(self, card: Card, sandbox: Sandbox, tools: Toolbox, grader: Grader, *, probed: bool) -> None:
        """``probed``: run the card's probe, if it has one, on files that later agents read."""
        self._card, self.sandbox, self._tools, self._grader = card, sandbox, tools, grader
        self._running = running(grader)
        self._probe = make_probe(card.probe) if card.probe and probed else None
        self.timer: Timer = _untimed
        self._handed_on = {name for spec in card.team for name in spec.reads}

    def fork(self) -> Execution:
        """Another one on the same sandbox, with a timer and a probe of its own."""
        twin = copy.copy(self)
        if self._card.probe and self._probe is not None:
            twin._probe = make_probe(self._card.probe)
        return twin

    def open_workspace(self, task: Task, stamps: Stamps) -> Workspace:
        """Open a new workspace with the task's files.

        Raises DataError if one can no longer be read, or is not as it was when ``stamps`` were taken.
        """
        workspace = self.sandbox.open_workspace()
        for name, content in task.files.items():
            try:
                workspace.put(name, content)
            except WorkspaceError as error:
                workspace.remove()
                if isinstance(content, bytes):  # the task itself is malformed
                    raise
                raise DataError(f"{name} of the task {task.id!r} can no longer be read: {error}") from error
        try:
            check_unchanged(stamps, task.paths)
        except DataError:
            workspace.remove()
            raise
        return workspace

    def run(self, at: ActionContext, text: str, workspace: Callable[[], Workspace]) -> ActionRecord:
        """Execute ``text``; calls ``workspace`` only if there is code. The record's verdict is pending.

        Code runs before the calls of other tools, which come in the order in which they are written.
        """
        spec, step = at.agent, len(at.history)
        parsed, written = (parse(text, tools=False), []) if at.task.void else self._read(text, spec)
        seed = _seed(at.seed, spec.name, at.turn)
        tool: ToolResult | None = None
        missing: tuple[str, ...] = ()
        place = None
        if parsed.code is not None:
            try:
                place = workspace()
            except DataError as error:  # an infrastructure failure: nobody's fault, and no score
                warnings.warn(str(error), DataWarning, stacklevel=2)
                tool = ToolResult("unavailable", None, "", "the task's files could not be placed")
        if place is not None and parsed.code is not None:
            missing = tuple([path for path in spec.reads if path not in place.present])
            before = place.use()
            with self.timer("sandbox"):
                tool = self.sandbox.run(place, parsed.code, at.limits, seed=seed)
            place.record(tool.files, spec.name, step)
            files = tuple([revised(f, agent=spec.name, step=step) for f in tool.files])
            quota = Use((at.limits.disk_mb << 20) + place.given_bytes, MAX_ENTRIES)
            tool = revised(tool, files=files, space=Space(quota, before, place.use()))
        calls: tuple[ToolCall, ...] = ()
        if written:
            with self.timer("sandbox"):
                calls = self._tools.carry_out(written, spec, at.history, seed)
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
            (parsed.code is None and not calls) or at.left <= 1,
            missing,
            calls=calls,
        )

    def _read(self, text: str, spec: AgentSpec) -> tuple[Action, list[Written]]:
        """The action, its code included, and its calls of other tools.

        Where no agent may call anything but Python, an action is read as if there were no other tools.
        """
        if self._tools.empty or not spec.tools:
            return parse(text, tools=PYTHON in spec.tools), []
        parsed = parse(text, tools=False)
        found = find_calls(parsed.answer, self._tools.offers(spec), self._tools.others(spec))
        runs = [call for call in found if call.tool == PYTHON and not call.problem]
        code = joined([call.arguments["code"] for call in runs])
        return parsed._replace(code=code), [call for call in found if call not in runs]

    def outcome(self, at: ActionContext, draft: ActionRecord, workspace: Workspace | None) -> Outcome | None:
        """The outcome if ``draft`` closes the episode, else None. Any action closes that on a void task."""
        if at.task.void:
            return Outcome(0.0, False, "unavailable", at.task.prompt)
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
        closing = outcome is not None
        if not draft.last_turn and (self._probe or name in self._card.truth):
            closing = self._card.order.would_be_over((*at.history, draft))
        provisional = outcome
        if provisional is None and name in self._card.truth and (closing or not self._card.order.is_chain):
            provisional = self._grade(at, draft, workspace)
        if self._probe and workspace is not None:
            written = {change.path for change in draft.tool.files} if draft.tool else set()
            again = is_doubtful(draft, at.history, workspace.present, at.task, provisional)
            if again or (self._handed_on & written if closing else written):
                seed = self._next_seed(at, draft)
                with self.timer("sandbox"):
                    facts = self._probe.look(Site(self.sandbox, workspace, at.task, at.limits, seed, again))
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
            calls=draft.calls,
            follows=None if provisional is None else _followed(at, workspace, facts),
        )

    def _next_seed(self, at: ActionContext, draft: ActionRecord) -> int:
        """The seed of the next segment's first action: a file can tell by the seed who loads it."""
        after = self._card.order.next((*at.history, revised(draft, last_turn=True)))
        agent, number = (at.agent.name, 0) if after is None else (after.agent.name, after.number)
        return _seed(at.seed, agent, number)

    def _grade(self, at: ActionContext, draft: ActionRecord, workspace: Workspace | None) -> Outcome:
        actions: Sequence[ActionRecord] = (*at.history, draft)
        if failed := next((action.unavailable for action in actions if action.unavailable), ""):
            what = failed.partition(":")[0]
            return Outcome(0.0, False, "unavailable", f"the {what} was unavailable; the team is not to blame")
        if self._running is None:
            return self._grader.grade(at.task, actions, workspace)
        fresh = FreshRuns(self.sandbox, at.limits, derived_seed(at.seed, "grading", bits=31))
        try:
            with self.timer("sandbox"):
                return self._running.grade(at.task, actions, workspace, fresh)
        except SandboxError as error:
            return Outcome(0.0, False, "unavailable", f"{error}; the team is not to blame")


def _followed(
    at: ActionContext, workspace: Workspace | None, facts: Mapping[str, Any] | None
) -> float | None:
    """How far the submission follows the model, as the latest probe saw that."""
    if facts is None:
        facts = next((record.probe for record in reversed(at.history) if record.probe is not None), None)
    return None if workspace is None or facts is None else followed(at.task, workspace, facts)


def _seed(episode: int, agent: str, turn: int) -> int:
    return derived_seed(episode, agent, turn, bits=31)
