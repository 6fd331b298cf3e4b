"""Task sets by name: some generate tasks, others read files that the user added."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mappa_env import plugins
from mappa_env.data.base import ListTaskSet, TaskSet, unknown_task
from mappa_env.errors import DataError

__all__ = ["LOADERS", "ListTaskSet", "TaskSet", "load_tasks", "unknown_task"]

LOADERS = plugins.Kind(
    name="task loader",
    option="loader",
    group="mappa.loaders",
    builtin={
        "arithmetic": "mappa_env.data.arithmetic:load",
        "aime": "mappa_env.data.contest:load_aime",
        "amc": "mappa_env.data.contest:load_amc",
        "math": "mappa_env.data.hendrycks:load",
        "jsonl": "mappa_env.data.jsonl:load",
        "relations": "mappa_env.data.relations:load",
        "tabular": "mappa_env.data.tabular:load",
        "dsbench": "mappa_env.data.tabular.dsbench:load",
    },
    methods={"get": (1, ())},
    takes="the split",
    attributes={"name": str, "split": str},
    advice="Write load(split, **options) that returns a TaskSet: name, split, ids and get(task_id).",
)


def load_tasks(loader: str, split_or_path: str, options: Mapping[str, Any] | None = None) -> TaskSet:
    """Load the task set of a split, or of a path to real files, with the named loader; see ``LOADERS``.

    A loader is a function ``load(split_or_path, **options)``. Raises OptionError, DataMissingError,
    DataError.
    """
    tasks: TaskSet = LOADERS.make(loader, split_or_path, **(options or {}))
    if not len(tasks.ids):
        raise DataError(f"{tasks.name}: tasks={split_or_path!r} has no tasks.")
    return tasks
