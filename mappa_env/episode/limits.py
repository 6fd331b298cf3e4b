"""The limits of a task's actions: those of the card, or more where the task's tables are large."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mappa_env.errors import OptionError, SandboxError
from mappa_env.sandbox.base import Limits
from mappa_env.sandbox.memory import machine_memory
from mappa_env.types import Task

_MIB = 2**20
_HEAD = 2**18
"""Bytes of a table that are read to estimate its number of cells."""
_CELL = 8
"""Bytes of a cell in memory: a float64."""
FACTORS = {"memory_mb": 12.0, "disk_mb": 4.0, "wall_s": 1.2, "cpu_s": 1.2}
"""Per MiB of a task's tables. Memory: address space for both tables, a few copies and a model; disk: the
prepared tables, pickled; times: reading, preparing and fitting on a sample, on a busy core."""


class TaskLimits:
    """``of(task)`` gives the limits of its actions.

    ``card``: the least that every task gets. ``chosen``: limits that the user fixed, for all tasks.
    """

    def __init__(self, card: Limits, chosen: Mapping[str, Any]) -> None:
        self._card, self._chosen = card, dict(chosen)
        self._least = dataclasses.replace(card, **self._chosen)

    def of(self, task: Task) -> Limits:
        """The limits of the actions on ``task``.

        Raises OptionError where a fixed limit is too small for the task's tables, and SandboxError where
        this machine has too little memory for them: no team could succeed.
        """
        needs = needed(task)
        larger = {key: value for key, value in needs.items() if value > getattr(self._card, key)}
        for key, value in larger.items():
            if key in self._chosen and self._chosen[key] < value:
                raise OptionError(
                    f"limits[{key!r}]={self._chosen[key]!r} makes the task {task.id!r} impossible: its "
                    f"tables need about {value}. Raise the limit, or omit it: it then follows the tables."
                )
        if not larger:
            return self._least
        limits = dataclasses.replace(self._card, **{**larger, **self._chosen})
        there = machine_memory() // _MIB
        if limits.memory_mb + limits.disk_mb > there:
            raise SandboxError(
                f"the task {task.id!r} is impossible on this machine: its tables need {limits.memory_mb} MiB "
                f"of memory and {limits.disk_mb} MiB for files, but this process may use {there} MiB."
            )
        return limits


def needed(task: Task) -> dict[str, int]:
    """What the tables of ``task`` call for, by the name of the limit, whatever the card says."""
    tables = sum(_size(content) for name, content in task.files.items() if name.endswith(".csv"))
    if not tables:
        return {}
    return {key: math.ceil(factor * tables / _MIB) for key, factor in FACTORS.items()}


def _size(content: bytes | Path) -> float:
    """Bytes of a table: of its text, or of its cells in memory if they are more."""
    if isinstance(content, bytes):
        return _estimate(content[:_HEAD], len(content))
    found = content.stat()
    return _size_of(content, found.st_mtime_ns, found.st_size)


@functools.lru_cache(maxsize=1024)
def _size_of(path: Path, changed: int, size: int) -> float:
    with path.open("rb") as stream:
        return _estimate(stream.read(_HEAD), size)


def _estimate(head: bytes, size: int) -> float:
    lines = head.splitlines() or [b""]
    rows = size * len(lines) / max(len(head), 1)
    return max(size, _CELL * rows * (lines[0].count(b",") + 1))
