"""Which agents caused the failures, traced backward from the end of every recorded episode."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mappa_env.coach.blame.attribution import attribute
from mappa_env.errors import CardError, OptionError
from mappa_env.registration import card_of, find_card
from mappa_env.trace.record import read
from mappa_env.types import Team

UNDECIDED = "undecided"
"""The record alone does not decide which agent it was."""
PHASES = ("before", "after")


@dataclass(frozen=True, slots=True)
class Failures:
    """Traced episodes, and those that failed by the agent that caused it."""

    episodes: int
    by_agent: Counter[str]


@dataclass(frozen=True, slots=True)
class Blame:
    """The failures before and after training; ``problem`` says why they cannot be traced."""

    agents: Sequence[str]
    before: Failures
    after: Failures
    problem: str = ""


def blame(runs: Sequence[Path]) -> Blame | None:
    """Trace the failures in ``traces/before.jsonl`` and ``traces/after.jsonl``; None without both."""
    order: dict[str, None] = {}
    try:
        before, after = (
            _failures([run / "traces" / f"{phase}.jsonl" for run in runs], order) for phase in PHASES
        )
    except (CardError, OptionError) as error:
        nothing = Failures(0, Counter())
        return Blame((), nothing, nothing, str(error))
    if not before.episodes or not after.episodes:
        return None
    agents = list(order)
    if before.by_agent[UNDECIDED] or after.by_agent[UNDECIDED]:
        agents.append(UNDECIDED)
    return Blame(agents, before, after)


def _failures(paths: Sequence[Path], order: dict[str, None]) -> Failures:
    """Also adds the agents to ``order``, in the order of their first action."""
    episodes, found = 0, Counter[str]()
    teams: dict[str, Team] = {}
    for path in paths:
        for trajectory in read(path) if path.is_file() else ():
            if trajectory.outcome is None:
                continue
            episodes += 1
            order |= dict.fromkeys(action.agent for action in trajectory.actions)
            if trajectory.outcome.success:
                continue
            name = trajectory.env_id
            if name not in teams:
                teams[name] = find_card(card_of(name)).team
            step = (trajectory.attribution or attribute(trajectory, teams[name])).culprit
            found[UNDECIDED if step is None else trajectory.actions[step].agent] += 1
    return Failures(episodes, found)
