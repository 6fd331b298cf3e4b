"""A few trajectories side by side, before and after training, picked from a run's traces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mappa_env.trace import Recorded
from mappa_env.types import ActionRecord, Trajectory
from mappa_rl.report.culprits import recorded
from mappa_rl.report.links import to_episode
from mappa_rl.report.plain import cut

PICKS = (
    ("failed before, succeeds after", False, True, 3),
    ("succeeded before, fails after", True, False, 1),
    ("failed before, fails after", False, False, 1),
    ("succeeded before, succeeds after", True, True, 1),
)
"""(title, success before, success after, how many at most)"""


@dataclass(frozen=True, slots=True)
class ShownAction:
    """An action as the page prints it; ``tool`` and ``output`` are empty if it used no tool."""

    agent: str
    turn: int
    action: str
    tool: str
    output: str
    score: str
    reasoning: str


@dataclass(frozen=True, slots=True)
class ShownEpisode:
    """One episode, before or after training; ``link``: to it in the viewer."""

    name: str
    link: str
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


def showcase(run: Path, page: Path) -> list[ShownPair]:
    """Pairs of episodes on the same task and seed, from the traces before and after training.

    At most three gains, one loss, one lasting failure and one lasting success. ``page``: the file from which
    links start.
    """
    before, after = (_episodes(run, phase) for phase in ("before", "after"))
    pairs = []
    for change, old, new, most in PICKS:
        keys = [k for k in before if k in after and (_won(before[k]), _won(after[k])) == (old, new)]
        for key in keys[:most]:
            task = before[key].trajectory.task
            pairs.append(
                ShownPair(
                    title=cut(f"{task.topic or 'task'}: {task.id}"),
                    change=change,
                    prompt=cut(task.compact or task.prompt),
                    sides=(_side("before", before[key], run, page), _side("after", after[key], run, page)),
                )
            )
    return pairs


def _episodes(run: Path, phase: str) -> dict[tuple[str, int], Recorded]:
    return {(each.trajectory.task.id, each.trajectory.seed): each for each in recorded(run, phase)}


def _won(recorded: Recorded) -> bool:
    outcome = recorded.trajectory.outcome
    return outcome is not None and outcome.success


def _side(name: str, recorded: Recorded, run: Path, page: Path) -> ShownEpisode:
    trajectory: Trajectory = recorded.trajectory
    return ShownEpisode(
        name=name,
        link=to_episode(page, run, recorded.key),
        success=_won(recorded),
        reason=cut(trajectory.outcome.reason if trajectory.outcome else "unfinished"),
        actions=[_action(action) for action in trajectory.actions],
    )


def _action(action: ActionRecord) -> ShownAction:
    verdict, tool = action.verdict, action.tool
    texts = [] if tool is None else [tool.stdout, tool.stderr]
    used = [] if tool is None else [f"its code ran: {tool.status}"]
    texts += [call.text for call in action.calls]
    used += [f"it called {call.tool or 'nothing'}: {call.status}" for call in action.calls]
    return ShownAction(
        agent=action.agent,
        turn=action.turn,
        action=cut(action.action),
        tool=cut("; ".join(used)),
        output=cut("\n".join(text for text in texts if text).strip()),
        score=f"coach: {verdict.status}" if verdict.score is None else f"coach {verdict.score:.1f} / 10",
        reasoning=cut(verdict.reasoning),
    )
