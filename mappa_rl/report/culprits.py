"""Which agents caused the failures, traced backward from the end of every recorded evaluation episode."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from mappa_env.cards import Card
from mappa_env.coach.blame.attribution import attribute
from mappa_env.errors import CardError, OptionError
from mappa_env.registration import card_of, find_card
from mappa_env.statistics.intervals import Interval, wilson
from mappa_env.trace import Recorded, Traces
from mappa_env.trace.traces import FOLDER, existing
from mappa_env.types import Attribution
from mappa_rl.report.links import to_episode
from mappa_rl.report.plain import cut
from mappa_rl.report.runs import RunData

UNDECIDED = "undecided"
"""The record alone does not decide which agent it was."""
PHASES = ("before", "after")
"""Evaluations that are kept as traces."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed episode; ``agent`` caused it, for the ``reason`` that ends the way back. ``link``: to it."""

    task: str
    seed: int
    agent: str
    reason: str
    link: str


@dataclass(frozen=True, slots=True)
class Traced:
    """The traced episodes of one phase: how many, and those that failed."""

    name: str
    episodes: int
    failures: Sequence[Failure]

    def rate(self, agent: str) -> Interval:
        """The fraction of the episodes that fail because of ``agent``, with its 95 % interval."""
        return wilson(sum(failure.agent == agent for failure in self.failures), self.episodes)


@dataclass(frozen=True, slots=True)
class Blame:
    """Failures by agent, side by side; ``problem`` says why they cannot be traced."""

    agents: Sequence[str]
    sides: Sequence[Traced]
    problem: str = ""

    @property
    def top(self) -> float:
        """The highest rate: the length of the longest bar."""
        return (
            max((side.rate(agent).mean for side in self.sides for agent in self.agents), default=0.0) or 1.0
        )


def blame(parts: Sequence[tuple[str, str, Sequence[RunData]]], page: Path) -> Blame | None:
    """Trace the failures of every part: its name, its phase and its runs. None if any has no trace.

    ``page``: the file from which links to episodes start.
    """
    order: dict[str, None] = {}
    try:
        sides = [_traced(name, phase, runs, page, order) for name, phase, runs in parts]
    except (CardError, OptionError) as error:
        return Blame((), (), str(error))
    if not all(side.episodes for side in sides):
        return None
    blamed = Counter(failure.agent for side in sides for failure in side.failures)
    agents = [*order, UNDECIDED] if blamed[UNDECIDED] else list(order)
    return Blame(agents, sides)


def recorded(run: Path, phase: str) -> Iterator[Recorded]:
    """The evaluation episodes of a run that were kept as traces; none without the file."""
    path = existing(run / FOLDER / f"{phase}.jsonl")
    return iter(Traces(path) if path.is_file() else ())


def _traced(name: str, phase: str, runs: Sequence[RunData], page: Path, order: dict[str, None]) -> Traced:
    """Also adds the agents to ``order``, in the order of their first action."""
    episodes, failures = 0, []
    for run in runs:
        card: Card | None = None
        for each in recorded(run.folder, phase):
            trajectory = each.trajectory
            if trajectory.outcome is None:
                continue
            episodes += 1
            order |= dict.fromkeys(action.agent for action in trajectory.actions)
            if trajectory.outcome.success:
                continue
            found = trajectory.attribution
            if found is None:
                # A card's folder has no registered id, so the id in a trace may not find it.
                card = card or find_card(card_of(run.config.env.id))
                found = attribute(trajectory, card)
            failures.append(_failure(each, found, to_episode(page, run.folder, each.key)))
    return Traced(name, episodes, sorted(failures, key=lambda failure: failure.agent))


def _failure(recorded: Recorded, found: Attribution, link: str) -> Failure:
    trajectory, step = recorded.trajectory, found.culprit
    reasons = [each.reason for each in found.walk if each.action == step]
    outcome = trajectory.outcome
    return Failure(
        task=cut(trajectory.task.id),
        seed=trajectory.seed,
        agent=UNDECIDED if step is None else trajectory.actions[step].agent,
        reason=cut(reasons[-1] if reasons else outcome.reason if outcome is not None else ""),
        link=link,
    )
