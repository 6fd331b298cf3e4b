"""Generated problems: nine seeded families, three levels, exact integer answers, nothing to download.

The short text of a problem determines its split (by md5; one in eight is held out), so ``train`` and ``eval``
cannot overlap for any seeds, sizes or levels.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from random import Random

from mappa_env.data.arithmetic.families import FAMILIES, Problem
from mappa_env.data.base import TaskSet, unknown_task
from mappa_env.data.contest import PLAIN
from mappa_env.data.store import is_split
from mappa_env.errors import OptionError, nearest
from mappa_env.grading.expression import safe_value
from mappa_env.types import Task

__all__ = ["FAMILIES", "ArithmeticTasks", "Problem", "load", "split_of"]

LEVELS = (1, 2, 3)
_ID = re.compile(r"(?P<split>[a-z]+)-(?P<family>[a-z_]+)-(?P<index>[0-9]{5,})")


def split_of(compact: str) -> str:
    """``"eval"`` for one problem text in eight, ``"train"`` for the others."""
    return "eval" if hashlib.md5(compact.encode(), usedforsecurity=False).digest()[0] % 8 == 0 else "train"


class ArithmeticTasks:
    """``size`` problems of each family. Families alternate, so that any prefix of ``ids`` is balanced."""

    name = "arithmetic"

    def __init__(
        self, split: str, size: int, families: Sequence[str], levels: Sequence[int], seed: int
    ) -> None:
        self.split, self._size, self._seed = split, size, seed
        self._families, self._levels = tuple(families), tuple(levels)
        self._ids = tuple(f"{split}-{family}-{i:05d}" for i in range(size) for family in self._families)

    @property
    def ids(self) -> Sequence[str]:
        """The ids of all tasks, in a fixed order."""
        return self._ids

    def get(self, task_id: str) -> Task:
        """The task ``task_id``. Raises UnknownTaskError."""
        match = _ID.fullmatch(task_id)
        if match is None or match["split"] != self.split or match["family"] not in self._families:
            raise unknown_task(task_id, self)
        family, index = match["family"], int(match["index"])
        if index >= self._size or task_id != f"{self.split}-{family}-{index:05d}":
            raise unknown_task(task_id, self)
        level = self._levels[index % len(self._levels)]
        problem = self._draw(family, index, level)
        return Task(
            id=task_id,
            prompt=problem.prompt,
            compact=problem.compact,
            metric="exact_match",
            topic=family,
            split=self.split,
            truth={"answer": str(problem.answer)},
            meta={"expr": problem.expr, "misconception": problem.misconception, "level": level},
        )

    def _draw(self, family: str, index: int, level: int) -> Problem:
        """Draw until the problem belongs to this split and its misconception gives a wrong answer."""
        rng = Random(f"{self._seed}/{self.split}/{family}/{level}/{index}")
        while True:
            problem = FAMILIES[family](rng, level)
            if split_of(problem.compact) == self.split and safe_value(problem.misconception) not in (
                None,
                problem.answer,
            ):
                return problem


def load(
    split: str,
    *,
    families: Sequence[str] = tuple(FAMILIES),
    levels: Sequence[int] = LEVELS,
    train_size: int = 4096,
    eval_size: int = 128,
    seed: int = 0,
) -> TaskSet:
    """The generated task set ``split`` (``"train"`` or ``"eval"``); sizes count problems per family.

    Problem ``i`` of a family has level ``levels[i % len(levels)]``. If ``split`` is a path, the problems are
    read from that file, as in AIME and AMC. Raises OptionError, DataMissingError, DataError.
    """
    if not is_split(split):
        return PLAIN.load(split)
    sizes = {"train": train_size, "eval": eval_size}
    for family in families:
        if family not in FAMILIES:
            raise OptionError(
                f"unknown arithmetic family {family!r}; choose from {', '.join(FAMILIES)}."
                + nearest(str(family), FAMILIES)
            )
    if not families or not levels or set(levels) - set(LEVELS):
        raise OptionError(f"levels={levels} must be among {LEVELS}, and families={families} not empty.")
    if not isinstance(sizes[split], int) or sizes[split] < 1:
        raise OptionError(f"{split}_size must be an integer >= 1, found {sizes[split]!r}.")
    return ArithmeticTasks(split, sizes[split], families, levels, seed)
