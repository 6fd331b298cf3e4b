"""Backward tracing: from the end of an episode to the actions that caused it.

The record of an episode is a graph. The parents of an action are the earlier actions of its own segment, the
last writers of the files that its code names, the agents that should have written the missing ones and, in
teams that communicate by text instead of files, all earlier actions. For a failure, the walk goes back from
what is missing or wrong to the first action that is responsible for it (``files``, ``numbers``), without a
coach. If the record does not decide, the episode's coach is asked once about the ancestors of the end. For a
success, all ancestors get equal fractions.

Attributing a failure to its decisive step follows arXiv 2505.00212; the walk is ours.
"""

from __future__ import annotations

from collections.abc import Sequence

from mappa_env.coach.base import Coach
from mappa_env.coach.blame.files import FileWalk
from mappa_env.coach.blame.numbers import NumberWalk
from mappa_env.coach.blame.retrace import retrace
from mappa_env.coach.rubric.case import Case
from mappa_env.errors import EpisodeError
from mappa_env.types import Attribution, Team, Trajectory


def attribute(trajectory: Trajectory, team: Team, coach: Coach | None = None) -> Attribution:
    """Attribute the end of ``trajectory`` to its actions. Without ``coach``, the record alone decides.

    Raises EpisodeError if the episode is not over, and CoachStopped as ``Coach.judge`` does.
    """
    outcome = trajectory.outcome
    if outcome is None:
        raise EpisodeError("the episode is still running: finish it before you attribute its outcome.")
    count = len(trajectory.actions)
    if outcome.status == "unavailable":
        return Attribution(True, (), "nobody")
    cases = retrace(trajectory, team)
    near = ancestors(cases)
    if outcome.success:
        return Attribution(False, _equal(near, count), "tracing", suspects=near)
    walk = FileWalk(cases, outcome) if team.agents[-1].requires else NumberWalk(cases, trajectory.actions)
    found, links = walk.run(), tuple(walk.links)
    if found:
        return Attribution(True, _equal(found, count), "tracing", links, near)
    if coach is None:
        return Attribution(True, (), "nobody", links, near)
    return coach.blame(trajectory, Attribution(True, (), "nobody", links, near))


def ancestors(cases: Sequence[Case]) -> tuple[int, ...]:
    """The steps of the actions that the last one depends on, itself included, in ascending order."""
    files = bool(cases[-1].evidence.agent.requires)
    near, open_ = set[int](), [len(cases) - 1]
    while open_:
        step = open_.pop()
        if step in near:
            continue
        near.add(step)
        case = cases[step]
        open_ += [earlier.step for earlier in case.own]
        if not files:
            open_ += range(step)
            continue
        before = cases[step - 1].evidence.present if step else {}
        code = case.evidence.code or ""
        open_ += [change.step for path, change in before.items() if change.agent and path in code]
        lost = {path for path in case.evidence.missing if path in code}
        owners = {spec.name for spec in case.team if lost.intersection(spec.requires)}
        open_ += [earlier.step for earlier in case.evidence.history if earlier.agent in owners]
    return tuple(sorted(near))


def _equal(steps: Sequence[int], count: int) -> tuple[float, ...]:
    return tuple(1 / len(steps) if step in steps else 0.0 for step in range(count))
