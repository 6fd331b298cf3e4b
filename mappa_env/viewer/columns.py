"""Where an episode's actions stand in time: actions in parallel stand side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mappa_env.trace import Recorded


def columns(recorded: Recorded) -> list[int]:
    """For every action its column. Parallel segments begin in the same one; the next segment follows them."""
    actions = recorded.trajectory.actions
    segments: list[list[int]] = []
    for step, segment in enumerate(recorded.segments):
        if segment == len(segments):
            segments.append([])
        segments[-1].append(step)
    agents = [actions[steps[0]].agent for steps in segments]
    groups = sorted(_parallel(recorded.card.get("order", ())), key=len, reverse=True)
    found, at, column = [0] * len(actions), 0, 0
    while at < len(segments):
        count = next((len(group) for group in groups if agents[at : at + len(group)] == group), 1)
        together = segments[at : at + count]
        for steps in together:
            for place, step in enumerate(steps):
                found[step] = column + place
        column += max(map(len, together))
        at += count
    return found


def _parallel(order: Any) -> Iterator[list[str]]:
    """The agents of every parallel step in a described order, however deep."""
    if isinstance(order, Mapping):
        for name, value in order.items():
            if name == "parallel" and isinstance(value, Mapping) and value.get("agents"):
                yield list(value["agents"])
            else:
                yield from _parallel(value)
    elif isinstance(order, Sequence) and not isinstance(order, str):
        for each in order:
            yield from _parallel(each)
