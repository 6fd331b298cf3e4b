"""Task sets: named, finite, indexable collections of tasks that are built on demand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from mappa_env.errors import UnknownTaskError, nearest
from mappa_env.types import Task


class TaskSet(Protocol):
    """``ids`` is in a fixed order; ``get`` builds the same task for the same id, always."""

    name: str
    split: str

    @property
    def ids(self) -> Sequence[str]: ...

    def get(self, task_id: str) -> Task:
        """Raises UnknownTaskError for an id that is not in ``ids``."""
        ...


class ListTaskSet:
    """Tasks that are already in memory."""

    def __init__(self, name: str, split: str, tasks: Sequence[Task]) -> None:
        self.name, self.split = name, split
        self._tasks = {task.id: task for task in tasks}
        self._ids = tuple(self._tasks)

    @property
    def ids(self) -> Sequence[str]:
        return self._ids

    def get(self, task_id: str) -> Task:
        try:
            return self._tasks[task_id]
        except KeyError:
            raise unknown_task(task_id, self) from None


def unknown_task(task_id: str, tasks: TaskSet) -> UnknownTaskError:
    """The error for a wrong id: says what was asked, what exists and what was probably meant."""
    ids = tasks.ids
    example = f"{len(ids)} ids such as {ids[0]!r}" if len(ids) else "no tasks at all"
    return UnknownTaskError(
        f"unknown task id {task_id!r}: {tasks.name} ({tasks.split}) holds {example}."
        + nearest(str(task_id), ids[:4096])
    )
