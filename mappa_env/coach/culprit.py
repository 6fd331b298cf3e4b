"""Whom the verdicts of an episode hold responsible for its failure."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from mappa_env.types import ActionRecord, Attribution


def culprit(actions: Sequence[ActionRecord]) -> str | None:
    """The agent that the verdicts blame most credibly; None where nothing was blamed.

    An agent's last action stands for its stay: what it mended itself is forgiven. The earliest agent whose
    stay ends in blaming itself is the culprit; where there is none, the earliest that a later one blames.
    """
    last = {action.agent: action.verdict.blame for action in actions}  # in the order of the team
    own = [agent for agent, blame in last.items() if blame == agent]
    blamed = [agent for agent in last if agent in last.values()]
    return next(iter(own + blamed), None)


def by_verdicts(actions: Sequence[ActionRecord], traced: Attribution) -> Attribution:
    """``traced``, decided by the scores of its suspects; itself where none of them has lost a point.

    All the blame goes to the worst action of the culprit, where there is one; else each suspect has its share
    of the points that are lacking.
    """
    lost = {
        step: 10.0 - score
        for step in traced.suspects
        if (score := actions[step].verdict.score) is not None and actions[step].verdict.status == "ok"
    }
    named = culprit(actions)
    own = {step: points for step, points in lost.items() if actions[step].agent == named}
    if own:
        worst = max(own, key=lambda step: (own[step], -step))
        lost = {worst: own[worst]}
    total = sum(lost.values())
    if total <= 0:
        return traced
    shares = tuple(lost.get(step, 0.0) / total for step in range(len(actions)))
    return dataclasses.replace(traced, shares=shares, decided="verdicts")
