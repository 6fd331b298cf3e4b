"""Sets of mathematics problems that the user adds: the stored splits, or a file in place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from mappa_env.data.base import ListTaskSet
from mappa_env.data.leaks import check_disjoint, fingerprints
from mappa_env.data.rows import Row
from mappa_env.data.sifting import Sifted
from mappa_env.data.store import SPLITS, is_split, stored
from mappa_env.types import Task


@dataclass(frozen=True, slots=True)
class Problems:
    """A kind of problem set. ``read``: (path, split) to tasks; ``row``: a task as a row that it reads."""

    name: str
    read: Callable[[Path, str], Sifted]
    row: Callable[[Task], Row]

    def load(self, split_or_path: str, exclude: str | None = None) -> ListTaskSet:
        """Problems of the stored split, or of the file at a path; repeated problems count once.

        ``exclude``: a file of problems to drop. Raises DataError if a row is invalid, or the stored training
        split has a problem of the stored held-out split; also DataMissingError, OptionError.
        """
        if is_split(split_or_path):
            tasks = self.read(stored(self.name, split_or_path), split_or_path).all_usable()
            self._check_stored(split_or_path, tasks)
        else:
            tasks = self.read(Path(split_or_path), "").readable().all_usable()
        if exclude is not None:
            tasks = without(tasks, self.read(Path(exclude), "").tasks)
        return ListTaskSet(self.name, split_or_path, tasks)

    def other_split(self, split: str) -> Sequence[Task]:
        """The stored tasks of the other split; none if it has not been added."""
        other = next(each for each in SPLITS if each != split)
        path = stored(self.name, other, missing_ok=True)
        return self.read(path, other).all_usable() if path else []

    def _check_stored(self, split: str, tasks: Sequence[Task]) -> None:
        others = self.other_split(split)
        train, held_out = (tasks, others) if split == "train" else (others, tasks)
        check_disjoint(
            train,
            held_out,
            f"Add the training file again with: mappa-env data add {self.name} PATH --drop-overlap",
        )


def without(tasks: Sequence[Task], others: Sequence[Task]) -> list[Task]:
    """``tasks`` except those that are also in ``others``."""
    known = {mark for task in others for mark in fingerprints(task)}
    return [task for task in tasks if known.isdisjoint(fingerprints(task))]
