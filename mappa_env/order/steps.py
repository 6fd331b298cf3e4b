"""The steps of an order. Each bounds how often it runs, so every episode ends."""

from __future__ import annotations

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
    """``steps`` up to ``times`` times; ``until`` is tried after each round and ends them early."""

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


def closers(steps: tuple[Step, ...]) -> tuple[frozenset[str], bool]:
    """The agents that can act last in ``steps``, and whether ``steps`` can pass without anybody acting."""
    found: frozenset[str] = frozenset()
    for step in reversed(steps):
        mine, empty = _closers(step)
        found |= mine
        if not empty:
            return found, False
    return found, True


def _closers(step: Step) -> tuple[frozenset[str], bool]:
    match step:
        case Act(agent):
            return frozenset({agent}), False
        case Parallel(agents):
            return frozenset(agents[-1:]), False
        case Repeat(steps):
            return closers(steps)
        case When(_, then, otherwise):
            first, second = closers(then), closers(otherwise)
            return first[0] | second[0], first[1] or second[1]
        case Choose(manager, among):
            return frozenset({manager, *among}), False
