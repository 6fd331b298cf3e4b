"""Checks that sets of problems are disjoint: by wording, and for contests also by (year, part, number)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from mappa_env.data.contest_keys import number_of, part_of
from mappa_env.data.wording import normalise
from mappa_env.errors import DataError
from mappa_env.types import Task


def fingerprints(task: Task) -> tuple[str, ...]:
    """Marks of a task: two tasks with a common mark are the same problem."""
    marks = [f"text:{normalise(task.prompt)}"]
    if {"year", "number"} <= task.meta.keys():
        year, number = (number_of(task.meta[key]) for key in ("year", "number"))
        marks.append(f"contest:{year}-{part_of(task.meta.get('part'))}-{number}")
    return tuple(marks)


def overlap(first: Iterable[Task], second: Iterable[Task]) -> list[tuple[str, str]]:
    """Pairs of ids (in ``first``, in ``second``) of the same problem."""
    known = {mark: task.id for task in second for mark in fingerprints(task)}
    pairs = []
    for task in first:
        other = next((known[mark] for mark in fingerprints(task) if mark in known), None)
        if other is not None:
            pairs.append((task.id, other))
    return pairs


def distinct(tasks: Iterable[Task]) -> Iterator[Task]:
    """The tasks without repetitions."""
    seen: set[str] = set()
    for task in tasks:
        marks = fingerprints(task)
        if seen.isdisjoint(marks):
            yield task
        seen.update(marks)


def check_disjoint(train: Sequence[Task], held_out: Sequence[Task], remedy: str) -> None:
    """Raise DataError if a training task is also held out."""
    pairs = overlap(train, held_out)
    if pairs:
        shown = ", ".join(f"{a} = {b}" for a, b in pairs[:3])
        raise DataError(f"{len(pairs)} of {len(train)} training tasks are also held out ({shown}). {remedy}")
