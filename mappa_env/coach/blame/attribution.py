"""Backward tracing: from the end of an episode to the actions that caused it.

The record of an episode is a graph. The parents of an action are the earlier actions of its own agent, the
last writers of the files that its code used, the agents that should have written the missing ones, the call
of a manager and, in teams that communicate by text and for agents without tools, all earlier actions that its
agent could see. For a failure, the walk goes back from what is missing or wrong to the first actions that are
responsible for it (``files``, ``numbers``, ``words``), without a coach. If the record does not decide, the
episode's coach is asked once about the ancestors of the end. For a success, all ancestors get equal parts.

Attributing a failure to its decisive step follows arXiv 2505.00212; the walk is ours.
"""

from __future__ import annotations

from collections.abc import Sequence

from mappa_env.cards import Card
from mappa_env.coach.base import Coach
from mappa_env.coach.blame.files import FileWalk
from mappa_env.coach.blame.numbers import NumberWalk
from mappa_env.coach.blame.retrace import retrace
from mappa_env.coach.blame.words import WordWalk
from mappa_env.coach.program import Program
from mappa_env.coach.rubric.case import Case
from mappa_env.errors import EpisodeError
from mappa_env.grading import make_grader
from mappa_env.grading.base import Answers
from mappa_env.tools.python import PYTHON
from mappa_env.types import Attribution, Trajectory


def attribute(trajectory: Trajectory, card: Card, coach: Coach | None = None) -> Attribution:
    """Attribute the end of ``trajectory`` to its actions. Without ``coach``, the record alone decides.

    Raises EpisodeError if the episode is not over, and CoachStopped as ``Coach.judge`` does.
    """
    outcome = trajectory.outcome
    if outcome is None:
        raise EpisodeError("the episode is still running: finish it before you attribute its outcome.")
    count = len(trajectory.actions)
    if outcome.status == "unavailable":
        return Attribution(True, (), "nobody")
    cases = retrace(trajectory, card.order, card.answerer)
    files = hands_in_files(cases, card)
    near = ancestors(cases, files)
    if outcome.success:
        return Attribution(False, _equal(near, count), "tracing", suspects=near)
    walk: FileWalk | NumberWalk | WordWalk
    if files:
        walk = FileWalk(cases, outcome)
    elif looks_up(card):
        walk = WordWalk(cases, trajectory.actions, graded(cases))
    else:
        walk = NumberWalk(cases, trajectory.actions, graded(cases), outcome.status)
    found, links = walk.run(), tuple(walk.links)
    if found:
        return Attribution(True, _equal(found, count), "tracing", links, near)
    if coach is None:
        return Attribution(True, (), "nobody", links, near)
    return coach.blame(trajectory, Attribution(True, (), "nobody", links, near))


def ancestors(cases: Sequence[Case], files: bool) -> tuple[int, ...]:
    """The steps of the actions that the end depends on, in ascending order.

    The end: the last action, which ended the episode, and the one whose answer was graded. ``files``: the
    result lies in files.
    """
    near, open_ = set[int](), [len(cases) - 1, graded(cases)]
    while open_:
        step = open_.pop()
        if step not in near:
            near.add(step)
            open_ += _parents(cases, step, files)
    return tuple(sorted(near))


def graded(cases: Sequence[Case]) -> int:
    """The step of the action whose answer was graded; the last one if its agent never acted."""
    answerer = cases[-1].answerer
    return next((case.evidence.step for case in reversed(cases) if case.me == answerer), len(cases) - 1)


def hands_in_files(cases: Sequence[Case], card: Card) -> bool:
    """Whether the result lies in files: the last agent has to write some, or others and nobody an answer."""
    if cases[-1].evidence.agent.requires:
        return True
    return bool(cases[-1].products) and not isinstance(make_grader(card.grader, card.grader_options), Answers)


def looks_up(card: Card) -> bool:
    """Whether its agents have tools, and none can compute with them."""
    tools = {tool for spec in card.team for tool in spec.tools}
    return bool(tools) and PYTHON not in tools


def _parents(cases: Sequence[Case], step: int, files: bool) -> list[int]:
    case = cases[step]
    call = case.order.chosen_by(case.evidence.history)
    found = [earlier.step for earlier in (*case.earlier, *case.own)]
    found += [] if call is None else [call.step]
    if not files or not case.evidence.agent.tools:
        return found + [earlier.step for earlier in case.seen]
    before = cases[step - 1].evidence.present if step else {}
    tool = case.evidence.tool
    run = None if tool is None else Program(case.evidence.code or "", tool)
    used = {path for path in (*before, *case.evidence.missing) if run is not None and run.uses(path)}
    found += [change.step for path, change in before.items() if change.agent and path in used]
    lost = used.intersection(case.evidence.missing)
    owners = {spec.name for spec in case.team if lost.intersection(spec.requires)}
    return found + [earlier.step for earlier in case.evidence.history if earlier.agent in owners]


def _equal(steps: Sequence[int], count: int) -> tuple[float, ...]:
    return tuple(1 / len(steps) if step in steps else 0.0 for step in range(count))
