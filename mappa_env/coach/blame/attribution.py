"""Backward tracing: from how an episode ended to the actions that made it end so.

The trail of an episode is a graph: an action's parents are the earlier actions of its own stay, the last
writers of the files that its code names, whoever had to write those that are missing and, in teams that hand
on words instead of files, all earlier actions. For a failure the walk goes back from what is missing or wrong
to the first action that can be held to it (``blame_files``, ``blame_numbers``); no coach is asked. Where the
trail does not decide, the episode's coach is asked once about the ancestors of the end. For a success all
ancestors share the credit equally.

After the idea of attributing a failure to its decisive step (arXiv 2505.00212); the walk is ours.
"""

from __future__ import annotations

from collections.abc import Sequence

from mappa_env.coach.base import Coach
from mappa_env.coach.blame_files import FileWalk
from mappa_env.coach.blame_numbers import NumberWalk
from mappa_env.coach.case import Case
from mappa_env.coach.retrace import retrace
from mappa_env.errors import EpisodeError
from mappa_env.types import Attribution, Team, Trajectory


def attribute(trajectory: Trajectory, team: Team, coach: Coach | None = None) -> Attribution:
    """Whose doing the end of ``trajectory`` is. Without ``coach`` the trail alone is asked.

    Raises EpisodeError for an episode that is not over, and CoachStopped as ``Coach.judge`` does.
    """
    outcome = trajectory.outcome
    if outcome is None:
        raise EpisodeError("an episode that is not over has no end to be traced back.")
    count = len(trajectory.actions)
    if outcome.status == "unavailable":
        return Attribution(True, (), "nobody")
    cases = retrace(trajectory, team)
    near = ancestors(cases)
    if outcome.success:
        return Attribution(False, _equal(near, count), "trail", suspects=near)
    walk = FileWalk(cases, outcome) if team.agents[-1].requires else NumberWalk(cases, trajectory.actions)
    found, links = walk.run(), tuple(walk.links)
    if found:
        return Attribution(True, _equal(found, count), "trail", links, near)
    if coach is None:
        return Attribution(True, (), "nobody", links, near)
    return coach.blame(trajectory, Attribution(True, (), "nobody", links, near))


def ancestors(cases: Sequence[Case]) -> tuple[int, ...]:
    """The actions from which the last one can be reached, itself included, in their order."""
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
        lacking = {case.owner(path) for path in case.evidence.missing if path in code}
        open_ += [earlier.step for earlier in case.evidence.history if earlier.agent in lacking]
    return tuple(sorted(near))


def _equal(steps: Sequence[int], count: int) -> tuple[float, ...]:
    return tuple(1 / len(steps) if step in steps else 0.0 for step in range(count))
