"""A few trajectories side by side, before and after training, picked from a run's traces."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mappa_env.trace.record import read
from mappa_env.types import ActionRecord, Trajectory

LONGEST = 4000
"""Characters of one text that are shown."""
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
PICKS = (
    ("failed before, succeeds after", False, True, 3),
    ("succeeded before, fails after", True, False, 1),
    ("failed before, fails after", False, False, 1),
    ("succeeded before, succeeds after", True, True, 1),
)
"""(title, success before, success after, how many at most)"""


@dataclass(frozen=True, slots=True)
class ShownAction:
    """An action as the page prints it; ``tool`` and ``output`` are empty if no code ran."""

    agent: str
    turn: int
    action: str
    tool: str
    output: str
    score: str
    reasoning: str


@dataclass(frozen=True, slots=True)
class ShownEpisode:
    """One episode, before or after training."""

    name: str
    success: bool
    reason: str
    actions: Sequence[ShownAction]


@dataclass(frozen=True, slots=True)
class ShownPair:
    """The same task and seed before and after training."""

    title: str
    change: str
    prompt: str
    sides: tuple[ShownEpisode, ShownEpisode]


def showcase(run: Path) -> list[ShownPair]:
    """Pairs of episodes on the same task and seed, from ``traces/before.jsonl`` and ``traces/after.jsonl``.

    At most three gains, one loss, one lasting failure and one lasting success.
    """
    before, after = (_episodes(run / "traces" / f"{name}.jsonl") for name in ("before", "after"))
    pairs = []
    for change, old, new, most in PICKS:
        keys = [k for k in before if k in after and (_won(before[k]), _won(after[k])) == (old, new)]
        for key in keys[:most]:
            task = before[key].task
            pairs.append(
                ShownPair(
                    title=f"{task.topic or 'task'}: {task.id}",
                    change=change,
                    prompt=_cut(task.compact or task.prompt),
                    sides=(_side("before", before[key]), _side("after", after[key])),
                )
            )
    return pairs


def _episodes(path: Path) -> dict[tuple[str, int], Trajectory]:
    return {(t.task.id, t.seed): t for t in read(path)} if path.is_file() else {}


def _won(trajectory: Trajectory) -> bool:
    return trajectory.outcome is not None and trajectory.outcome.success


def _side(name: str, trajectory: Trajectory) -> ShownEpisode:
    return ShownEpisode(
        name=name,
        success=_won(trajectory),
        reason=_cut(trajectory.outcome.reason if trajectory.outcome else "unfinished"),
        actions=[_action(action) for action in trajectory.actions],
    )


def _action(action: ActionRecord) -> ShownAction:
    verdict, tool = action.verdict, action.tool
    output = "\n".join(text for text in (tool.stdout, tool.stderr) if text) if tool is not None else ""
    return ShownAction(
        agent=action.agent,
        turn=action.turn,
        action=_cut(action.action),
        tool="" if tool is None else f"its code ran: {tool.status}",
        output=_cut(output.strip()),
        score=f"coach: {verdict.status}" if verdict.score is None else f"coach {verdict.score:.1f} / 10",
        reasoning=_cut(verdict.reasoning),
    )


def _cut(text: str) -> str:
    """The head of a text, with control characters and those that turn the writing direction spelled out."""
    shown = text if len(text) <= LONGEST else f"{text[:LONGEST]}\n[{len(text) - LONGEST:,} more characters]"
    return _CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", shown.replace("\r\n", "\n"))
