"""Whom the verdicts of an episode hold responsible for its failure, and for which action."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from mappa_env.types import ActionRecord, Attribution, Team


def culprit(actions: Sequence[ActionRecord]) -> str | None:
    """The agent that the verdicts blame most credibly; None where nothing was blamed.

    An agent's last action stands for its stay: what it mended itself is forgiven. The earliest agent whose
    stay ends in blaming itself is the culprit; where there is none, the earliest that a later one blames.
    """
    last = {action.agent: action.verdict.blame for action in actions}  # in the order of the team
    own = [agent for agent, blame in last.items() if blame == agent]
    blamed = [agent for agent in last if agent in last.values()]
    return next(iter(own + blamed), None)


def culprit_step(actions: Sequence[ActionRecord], team: Team) -> int | None:
    """The step of the culprit's action that is at fault; None where nothing was blamed.

    Candidates are the actions at the end of the culprit's stay that blame it without a break (all of its
    actions, where only others blame it). Who hands on files is at fault where it last wrote any; if it wrote
    none, where it first claims files that are not there or shows code that never ran; else in its last run,
    if that failed; else in the run with the lowest score, the last of equals. Who hands on words is at fault
    in its last run, which replaced the ones before, unless a word after that scores lower.
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
    if untrue := [action for action in tail if action.claims or _unrun(action)]:
        return untrue[0].step
    if runs[-1].tool is not None and runs[-1].tool.status != "ok":
        return runs[-1].step
    return min(runs, key=lambda run: (_score(run), -run.step)).step


def by_verdicts(actions: Sequence[ActionRecord], traced: Attribution, team: Team) -> Attribution:
    """``traced``, decided by the scores of its suspects; itself where none of them has lost a point.

    All the blame goes to the culprit's action, where it is a suspect; else each suspect has its share of the
    points that are lacking.
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
    shares = tuple(lost.get(step, 0.0) / total for step in range(len(actions)))
    return dataclasses.replace(traced, shares=shares, decided="verdicts")


def _unrun(action: ActionRecord) -> bool:
    return action.code is None and "```" in action.answer


def _score(action: ActionRecord) -> float:
    return math.inf if action.verdict.score is None else action.verdict.score
