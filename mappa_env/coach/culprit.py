"""Whom the verdicts of an episode hold responsible for its failure."""

from __future__ import annotations

from collections.abc import Sequence

from mappa_env.types import ActionRecord


def culprit(actions: Sequence[ActionRecord]) -> str | None:
    """The agent that the verdicts blame most credibly; None where nothing was blamed.

    An agent's last action stands for its stay: what it mended itself is forgiven. The earliest agent whose
    stay ends in blaming itself is the culprit; where there is none, the earliest that a later one blames.
    """
    last = {action.agent: action.verdict.blame for action in actions}  # in the order of the team
    own = [agent for agent, blame in last.items() if blame == agent]
    blamed = [agent for agent in last if agent in last.values()]
    return next(iter(own + blamed), None)
