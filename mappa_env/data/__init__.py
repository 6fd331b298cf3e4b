"""Task sets by name: generated ones need nothing, the others read files that the user has added."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from mappa_env.data.base import ListTaskSet, TaskSet, unknown_task
from mappa_env.errors import OptionError, nearest

__all__ = ["LOADERS", "ListTaskSet", "TaskSet", "load_tasks", "unknown_task"]

LOADERS = ("arithmetic", "aime", "amc", "jsonl", "tabular", "dsbench")


def load_tasks(loader: str, split_or_path: str, options: Mapping[str, Any] | None = None) -> TaskSet:
    """The task set that ``loader`` gives for a split, or for a path to real files.

    Every loader is a module ``mappa_env.data.<loader>`` with ``load(split_or_path, **options)``, imported
    only when it is asked for. Raises OptionError, DataMissingError, DataError.
    """
    if loader not in LOADERS:
        raise OptionError(
            f"no task loader {loader!r}; there are {', '.join(LOADERS)}." + nearest(str(loader), LOADERS)
        )
    module: Any = importlib.import_module(f"mappa_env.data.{loader}")
    try:
        tasks: TaskSet = module.load(split_or_path, **(options or {}))
    except TypeError as error:
        if "unexpected keyword" not in str(error):
            raise
        raise OptionError(f"the loader {loader!r} does not know this option: {error}") from None
    return tasks
