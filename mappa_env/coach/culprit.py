"""The agent and the action that the verdicts of an episode blame for its failure."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from mappa_env.coach.program import Program
from mappa_env.types import ActionRecord, Attribution, Team


def culprit(actions: Sequence[ActionRecord]) -> str | None:
    """The agent that the verdicts blame most credibly; None if no verdict blames an agent.

    The last action counts for its agent, so an agent is not blamed for what it fixed itself. The culprit is
    the agent whose last verdict blames the agent itself, of several the one with the lowest score, then the
    earliest; if there is none, the earliest that a later one blames.
    """
    last = {action.agent: action for action in actions}  # by their first actions
    own = [agent for agent, action in last.items() if action.verdict.blame == agent]
    blamed = {action.verdict.blame for action in last.values()}
    others = [agent for agent in last if agent in blamed]
    return min(own, key=lambda agent: _score(last[agent])) if own else next(iter(others), None)


def culprit_step(actions: Sequence[ActionRecord], team: Team) -> int | None:
    """The step of the culprit's action that is at fault; None if no verdict blames an agent.

    Candidates are the last consecutive ones of the culprit's actions whose verdicts blame it (all its
    actions, if only verdicts on others blame it). For an agent that must write files, the faulty action
    is the last one that wrote any; if none did, the last whose program used or names files of this agent;
    else the last run, if it failed; else the last action, which ended the segment. For an agent that
    communicates by text, it is the last run, which replaced earlier ones, unless a later action without code
    scores lower.
    """
    agent = culprit(actions)
    if agent is None:
        return None
    tail = [action for action in actions if action.agent == agent]
    if tail[-1].verdict.blame == agent:
        fine = [i for i, action in enumerate(tail) if action.verdict.blame != agent]
        tail = tail[max(fine, default=-1) + 1 :]
    runs = [action for action in tail if action.tool is not None]
    if not runs:
        return tail[0].step
    if not team[agent].requires:
        return min((a for a in tail if a.step >= runs[-1].step), key=lambda a: (_score(a), a.step)).step
    if wrote := [run for run in runs if run.tool is not None and run.tool.files]:
        return wrote[-1].step
    files = {*team[agent].requires, *team[agent].reads}
    programs = [(run.step, Program(run.code or "", run.tool)) for run in runs if run.tool is not None]
    if aimed := [step for step, run in programs if run.aims_at(files) or any(map(run.uses, files))]:
        return aimed[-1]
    step, last = programs[-1]
    return step if last.tool.status != "ok" else tail[-1].step


def by_verdicts(actions: Sequence[ActionRecord], traced: Attribution, team: Team) -> Attribution:
    """``traced``, decided by the scores of its suspects; unchanged if all of them scored 10.

    The culprit's action gets all the blame if it is a suspect; else each suspect gets its fraction of the
    points lost.
    """
    lost = {
        step: 10.0 - score
        for step in traced.suspects
        if (score := actions[step].verdict.score) is not None and actions[step].verdict.status == "ok"
    }
    named = culprit_step(actions, team)
    if lost.get(-1 if named is None else named):
        lost = {step: points for step, points in lost.items() if step == named}
    total = sum(lost.values())
    if total <= 0:
        return traced
    fractions = tuple(lost.get(step, 0.0) / total for step in range(len(actions)))
    return dataclasses.replace(traced, fractions=fractions, decided="verdicts")


def _score(action: ActionRecord) -> float:
    return math.inf if action.verdict.score is None else action.verdict.score
