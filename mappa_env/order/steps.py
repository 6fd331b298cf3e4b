"""The steps of an order. Each bounds how often it runs, so every episode ends."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from mappa_env.order.conditions import Condition


@dataclass(frozen=True, slots=True)
class Act:
    """One segment of ``agent``."""

    agent: str


@dataclass(frozen=True, slots=True)
class Parallel:
    """One segment of each of ``agents``; none of them sees the others' segments of this step."""

    agents: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """``steps`` up to ``times`` times; ``until``, tried after each round, ends them early.

    So does a round in which nobody acts.
    """

    steps: tuple[Step, ...]
    times: int
    until: Condition | None = None


@dataclass(frozen=True, slots=True)
class When:
    """``then`` if the ``condition`` holds, else ``otherwise``."""

    condition: Condition
    then: tuple[Step, ...]
    otherwise: tuple[Step, ...] = ()


@dataclass(frozen=True, slots=True)
class Choose:
    """``manager`` hands over to one of ``among`` with the line ``next: <agent>``, up to ``times`` times.

    After that agent's segment the manager is asked again. ``next: done`` ends the step. A reply that names
    nobody takes one of the ``times``.
    """

    manager: str
    among: tuple[str, ...]
    times: int


Step = Act | Parallel | Repeat | When | Choose
KEY, DONE = "next", "done"
"""What a manager writes: ``next: <agent>``, or ``next: done``."""


def fixed(steps: tuple[Step, ...]) -> bool:
    """Whether the same agents act in the same order in every episode."""
    for step in steps:
        match step:
            case Act() | Parallel():
                continue
            case Repeat(body, until=None) if fixed(body):
                continue
            case _:
                return False
    return True


def flat(steps: tuple[Step, ...]) -> Iterator[Step]:
    """All steps, those in other steps too."""
    for step in steps:
        yield step
        match step:
            case Repeat(body):
                yield from flat(body)
            case When(_, then, otherwise):
                yield from flat((*then, *otherwise))
            case _:
                continue


def counts(steps: tuple[Step, ...]) -> dict[str, int]:
    """Agent -> the most segments that it can have in ``steps``."""
    most: dict[str, int] = {}
    for step in steps:
        for agent, count in _counts(step).items():
            most[agent] = most.get(agent, 0) + count
    return most


def _counts(step: Step) -> dict[str, int]:
    match step:
        case Act(agent):
            return {agent: 1}
        case Parallel(agents):
            return dict.fromkeys(agents, 1)
        case Repeat(steps, times):
            return {agent: times * count for agent, count in counts(steps).items()}
        case When(_, then, otherwise):
            first, second = counts(then), counts(otherwise)
            return {agent: max(first.get(agent, 0), second.get(agent, 0)) for agent in {**first, **second}}
        case Choose(manager, among, times):
            return {manager: times, **dict.fromkeys(among, times)}


def longest(steps: tuple[Step, ...], turns: dict[str, int]) -> int:
    """The most actions that ``steps`` can take; ``turns``: agent -> the most actions of a segment."""
    return sum(_longest(step, turns) for step in steps)


def _longest(step: Step, turns: dict[str, int]) -> int:
    match step:
        case Act(agent):
            return turns[agent]
        case Parallel(agents):
            return sum(turns[agent] for agent in agents)
        case Repeat(steps, times):
            return times * longest(steps, turns)
        case When(_, then, otherwise):
            return max(longest(then, turns), longest(otherwise, turns))
        case Choose(manager, among, times):
            return times * (turns[manager] + max(turns[agent] for agent in among))


def fewest(steps: tuple[Step, ...]) -> int:
    """The fewest segments that ``steps`` can take."""
    return sum(_fewest(step) for step in steps)


def _fewest(step: Step) -> int:
    match step:
        case Act() | Choose():
            return 1
        case Parallel(agents):
            return len(agents)
        case Repeat(steps):
            return fewest(steps)
        case When(_, then, otherwise):
            return min(fewest(then), fewest(otherwise))
