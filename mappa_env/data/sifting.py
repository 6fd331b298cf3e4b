"""Sorts the rows of a file into usable tasks and those left out, each with its place and the reason."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mappa_env.data.golds import refused_golds, same_gold
from mappa_env.data.leaks import fingerprints
from mappa_env.data.rows import Entry, check_storable
from mappa_env.data.store import LeftOut
from mappa_env.errors import DataError
from mappa_env.types import Task


@dataclass(frozen=True, slots=True)
class Sifted:
    """The distinct usable tasks of a file, and all its other rows."""

    source: str
    tasks: Sequence[Task]
    left_out: Sequence[LeftOut]
    places: Mapping[str, str]
    """Id of a task -> file and row."""

    def readable(self) -> Sifted:
        """Without the tasks whose golds algebra cannot read. Takes milliseconds per expression."""
        refused = refused_golds(self.tasks)
        return Sifted(
            self.source,
            [task for task in self.tasks if task.id not in refused],
            [*self.left_out, *(LeftOut(self.places[own], reason) for own, reason in refused.items())],
            self.places,
        )

    def all_usable(self) -> Sequence[Task]:
        """The tasks. Raises DataError if a row is invalid; repeated problems are no error."""
        invalid = [each for each in self.left_out if not each.repeated]
        if invalid:
            more = f" (and {len(invalid) - 1} more rows)" if len(invalid) > 1 else ""
            raise DataError(f"{invalid[0]}{more}")
        return self.some()

    def some(self) -> Sequence[Task]:
        """The tasks. Raises DataError if there is none."""
        if not self.tasks:
            reasons = "; ".join(map(str, self.left_out[:3]))
            raise DataError(f"{self.source} has no tasks. {reasons}".strip())
        return self.tasks


def sift(source: str, entries: Iterable[Entry], build: Callable[[int, Any], Task]) -> Sifted:
    """Build the task of each entry from its number (from 0) and its value.

    Left out are entries for which ``build`` raises DataError, repeated problems, problems to which the file
    has two answers (not one in two spellings), and problems that share an id.
    """
    left_out: list[LeftOut] = []
    built: list[tuple[str, Task]] = []
    for number, entry in enumerate(entries):
        try:
            if entry.problem:
                raise DataError(entry.problem)
            task = build(number, entry.value)
            check_storable({"id": task.id, "type": task.topic, **task.meta})
            built.append((entry.where, task))
        except DataError as error:
            left_out.append(LeftOut(entry.where, str(error)))
    kept: dict[str, tuple[str, Task]] = {}
    by_mark: dict[str, str] = {}
    refused: set[str] = set()
    for where, task in built:
        marks = fingerprints(task)
        first = next((by_mark[mark] for mark in marks if mark in by_mark), None)
        for mark in marks:
            by_mark.setdefault(mark, first or where)
        if first is None:
            kept[where] = (where, task)
            continue
        original = kept[first][1]
        answers = task.truth["answer"], original.truth["answer"]
        same = same_gold(*answers)
        if not same:
            refused.add(first)
        reason = "" if same else f", but with the answer {answers[0]!r:.60} instead of {answers[1]!r:.60}"
        left_out.append(LeftOut(where, f"repeats {first}{reason}", repeated=same))
    left_out += [LeftOut(where, "its repetitions have other answers") for where in kept if where in refused]
    tasks: dict[str, Task] = {}
    places: dict[str, str] = {}
    for where, task in kept.values():
        if where in refused:
            continue
        if task.id in tasks:
            left_out.append(LeftOut(where, f"the id {task.id!r} occurs twice; ids must be unique"))
        else:
            tasks[task.id], places[task.id] = task, where
    return Sifted(source, list(tasks.values()), left_out, places)
