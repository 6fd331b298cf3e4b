"""What a trace holds: recorded episodes, their summaries, and what a learner made of their actions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from mappa_env.types import ActionRecord, Message, Trajectory


@dataclass(frozen=True, slots=True)
class Learned:
    """What a learner made of the action ``step``.

    ``policy`` sampled it, after ``version`` updates. ``reward`` (0-10) and ``valid`` are as the learner took
    them, with any correction of the coach's bias. ``returned`` is the return and ``advantage`` what the loss
    weighed, both means over the action's tokens; None: there is none, as for an action without training.
    ``context_ids`` are the token ids that the engine consumed, ``action_ids`` those that it sampled, with one
    of ``logprobs`` each. ``stopped``: ``eos``, ``length`` or ``no_room``.
    """

    step: int
    policy: str
    version: int
    reward: float
    valid: bool
    returned: float | None = None
    advantage: float | None = None
    stopped: str = ""
    context_ids: tuple[int, ...] = ()
    action_ids: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()


class ActionSummary(NamedTuple):
    """One action in a list of episodes.

    ``verdict`` and ``tool`` are statuses. ``tool`` is that of the code and the calls of tools: the first that
    did not end well, else ``ok``; empty if there were none. ``segment`` counts the segments of the episode
    from 0. ``returned`` and ``advantage`` are a learner's, None without one.
    """

    step: int
    agent: str
    turn: int
    segment: int
    verdict: str
    score: float | None
    reward: float
    valid: bool
    tool: str
    stratum: tuple[str, str, int]
    returned: float | None = None
    advantage: float | None = None

    @property
    def valid_score(self) -> float | None:
        """The score (0-10) if the verdict is ``ok``, else None."""
        return self.score if self.verdict == "ok" else None


def summarised(action: ActionRecord, step: int, segment: int) -> ActionSummary:
    """The summary of ``action`` without what a learner adds."""
    verdict = action.verdict
    statuses = [run.status for run in (action.tool, *action.calls) if run is not None]
    return ActionSummary(
        step,
        action.agent,
        action.turn,
        segment,
        verdict.status,
        verdict.score,
        action.reward,
        action.reward_valid,
        next((status for status in statuses if status != "ok"), "ok" if statuses else ""),
        action.stratum,
    )


@dataclass(frozen=True, slots=True)
class Summary:
    """One episode in a list: enough for a table or a grid.

    ``file`` and ``key`` find it again. ``success``, ``score`` (0-1) and ``status`` are those of the outcome;
    None and empty for an episode that was cut off. ``about``: what its writer said, such as the phase and
    step of a run.
    """

    file: str
    key: str
    env_id: str
    task_id: str
    topic: str
    family: str
    seed: int
    success: bool | None
    score: float | None
    status: str
    about: Mapping[str, Any]
    actions: tuple[ActionSummary, ...]


@dataclass(frozen=True, slots=True)
class Recorded:
    """One episode with everything that its trace holds.

    In ``trajectory``, ``task.truth`` and ``task.files`` are empty; ``task_files`` has the files' sizes in
    bytes by name. ``card``: id, title, team, order and limits, empty if the writer had none. ``learned`` has
    an entry for every action that a learner reported.
    """

    key: str
    trajectory: Trajectory
    about: Mapping[str, Any] = field(default_factory=dict)
    card: Mapping[str, Any] = field(default_factory=dict)
    task_files: Mapping[str, int] = field(default_factory=dict)
    learned: Mapping[int, Learned] = field(default_factory=dict)

    @property
    def segments(self) -> tuple[int, ...]:
        """For every action the number of its segment, from 0."""
        return segments(self.trajectory.actions)

    @property
    def news(self) -> tuple[tuple[Message, ...], ...]:
        """For every action the messages that were new to its agent."""
        known = previous(self.trajectory.actions)
        return tuple(
            action.messages[continued(self.trajectory.actions[before], action) if before is not None else 0 :]
            for action, before in zip(self.trajectory.actions, known, strict=True)
        )


def segments(actions: tuple[ActionRecord, ...]) -> tuple[int, ...]:
    """For every action the number of its segment, from 0."""
    found, number = [], 0
    for action in actions:
        found.append(number)
        number += action.last_turn
    return tuple(found)


def previous(actions: tuple[ActionRecord, ...]) -> list[int | None]:
    """For every action the position of its agent's action before it; None for the first."""
    newest: dict[str, int] = {}
    found = []
    for position, action in enumerate(actions):
        found.append(newest.get(action.agent))
        newest[action.agent] = position
    return found


def continued(before: ActionRecord, action: ActionRecord) -> int:
    """How many messages of ``action`` its agent knew from ``before``: those it saw then, and what it said.

    0 if the conversation began again.
    """
    known = len(before.messages)
    messages = action.messages
    if len(messages) > known and messages[:known] == before.messages and messages[known] == said(before):
        return known + 1
    return 0


def said(action: ActionRecord) -> Message:
    """The action as a message to its own agent's next turn."""
    return {"role": "assistant", "content": action.action}
