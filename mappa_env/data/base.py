"""Task sets: named, finite, indexable collections of tasks that are built on demand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Protocol

from mappa_env.errors import DataError, UnknownTaskError, nearest
from mappa_env.types import Task


class TaskSet(Protocol):
    """A collection of tasks. The order of ``ids`` is fixed; ``get`` is deterministic."""

    name: str
    split: str

    @property
    def ids(self) -> Sequence[str]:
        """The ids of all tasks, in a fixed order."""
        ...

    def get(self, task_id: str) -> Task:
        """The task ``task_id``. Raises UnknownTaskError for an id that is not in ``ids``."""
        ...


class ListTaskSet:
    """Tasks that are already in memory."""

    def __init__(self, name: str, split: str, tasks: Sequence[Task]) -> None:
        self.name, self.split = name, split
        """Raises DataError for an id that occurs twice."""
        self._tasks = {task.id: task for task in tasks}
        if len(self._tasks) < len(tasks):
            twice = next(name for name, times in Counter(task.id for task in tasks).items() if times > 1)
            raise DataError(f"{name} ({split}): the task id {twice!r} occurs twice; ids must be unique.")
        self._ids = tuple(self._tasks)

    @property
    def ids(self) -> Sequence[str]:
        """The ids of all tasks, in a fixed order."""
        return self._ids

    def get(self, task_id: str) -> Task:
        """The task ``task_id``. Raises UnknownTaskError."""
        try:
            return self._tasks[task_id]
        except KeyError:
            raise unknown_task(task_id, self) from None


def unknown_task(task_id: str, tasks: TaskSet) -> UnknownTaskError:
    """The error for an unknown id, with an example and the nearest id."""
    ids = tasks.ids
    example = f"{len(ids)} ids such as {ids[0]!r}" if len(ids) else "no tasks"
    return UnknownTaskError(
        f"unknown task id {task_id!r}: {tasks.name} ({tasks.split}) has {example}."
        + nearest(str(task_id), ids[:4096])
    )
