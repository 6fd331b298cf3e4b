"""Tabular tasks in DSBench's own layout: train.csv, test.csv, sample_submission.csv and hidden answers.

The tables are real ones from scikit-learn and generated untidy ones. No row of a real table is in both
splits: ``wine`` is only in eval, ``iris`` only in train, the others are split. Use the third split,
``validation``, to choose settings: it has other draws from the training rows.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from typing import Any

from mappa_env.data.base import TaskSet, unknown_task
from mappa_env.data.store import is_split
from mappa_env.data.tabular.instance import build
from mappa_env.data.tabular.names import Pool
from mappa_env.data.tabular.sources import SOURCES, Source
from mappa_env.data.tabular.weak import WEAK
from mappa_env.errors import OptionError, nearest
from mappa_env.types import Task

__all__ = ["SOURCES", "TabularTasks", "load"]

SPLITS = ("train", "eval")
VALIDATION = "validation"
ADDED = {f"added-{split}": split for split in SPLITS}
NAMES = ("split", "shared", "words")
_DEFAULTS = {"size": None, "sources": None, "names": "split", "variants": 1}
"""What is no choice among generated tasks."""
VARIANTS = "abcdefghijklmnopqrstuvwxyz"
_ID = re.compile(r"(?P<split>[a-z]+)-(?P<source>[a-z]+)-(?P<index>[0-9]{3})(?P<variant>[b-z]?)")


def candidates(split: str) -> list[str]:
    """All ids, including weak tasks; sources alternate, so that any prefix is a mixture."""
    counts = {name: _count(source, split) for name, source in SOURCES.items()}
    rows = [((i + 0.5) / count, name, i) for name, count in counts.items() for i in range(count)]
    return [f"{split}-{name}-{i:03d}" for _, name, i in sorted(rows)]


def _count(source: Source, split: str) -> int:
    return source.counts[0] // 4 if split == VALIDATION else source.counts[SPLITS.index(split)]


@functools.lru_cache(maxsize=4096)
def _built(source: str, split: str, index: int, names: Pool, variant: int = 0) -> Task:
    """Build a task, cached: building takes milliseconds, its reference model a tenth of a second.

    Variants of a task are the same table with other names, so they have the same reference.
    """
    if not variant:
        return build(SOURCES[source], split, index, names)
    first = _built(source, split, index, names)
    return build(SOURCES[source], split, index, names, variant, functools.partial(_reference_of, first))


def _reference_of(task: Task, _: Mapping[str, Any]) -> float:
    return float(task.truth["reference"])


class TabularTasks:
    """The tasks of a split, without those whose reference model barely beats the constant."""

    name = "tabular"

    def __init__(self, split: str, ids: Sequence[str], names: Pool) -> None:
        self.split, self._names = split, names
        self._ids = tuple(ids)
        self._known = frozenset(self._ids)

    @property
    def ids(self) -> Sequence[str]:
        """The ids of all tasks, in a fixed order."""
        return self._ids

    def get(self, task_id: str) -> Task:
        """The task ``task_id``. Raises UnknownTaskError."""
        match = _ID.fullmatch(task_id)
        if match is None or task_id not in self._known:
            raise unknown_task(task_id, self)
        variant = VARIANTS.index(match["variant"] or "a")
        return _built(match["source"], self.split, int(match["index"]), self._names, variant)


def load(
    split: str,
    *,
    size: int | None = None,
    sources: Sequence[str] | None = None,
    names: str = "split",
    variants: int = 1,
) -> TaskSet:
    """The task set of ``split``: ``train``, ``validation`` or ``eval``.

    ``added-train`` and ``added-eval`` are the splits of the added real DSBench data, and a path is a folder
    with such data; they take no options. ``mappa/DSBench-v0`` plays them; other cards set options.

    Args:
        split: the split, or the path of a folder.
        size: keep the first ``size`` tasks.
        sources: keep only the tasks of these sources.
        names: ``"split"``: eval tasks have column names that no training task has. ``"shared"``: they have
            those of training, for policies that are too small to copy an unseen name. ``"words"``: names of
            two words, disjoint between the three splits. Otherwise validation tasks have the names of
            training tasks.
        variants: the number (1-26) of sets of names under which each training task occurs.

    Raises:
        OptionError: an option is invalid.
    """
    if split in ADDED or (split != VALIDATION and not is_split(split)):
        given = {"size": size, "sources": sources, "names": names, "variants": variants}
        if undo := {key: default for key, default in _DEFAULTS.items() if given[key] != default}:
            raise OptionError(
                f"tasks={split!r} are real tasks: they cannot have {' and '.join(undo)}, which the card or "
                "task_options sets for generated ones. mappa/DSBench-v0 plays them, for its card sets none; "
                f"on any other, undo what it sets with task_options={undo}."
            )
        from mappa_env.data.tabular import dsbench

        return dsbench.load(ADDED.get(split, split))
    if names not in NAMES:
        raise OptionError(f"names={names!r} is unknown; use one of {NAMES}." + nearest(str(names), NAMES))
    for source in sources or ():
        if source not in SOURCES:
            raise OptionError(
                f"unknown source {source!r}; choose from {sorted(SOURCES)}." + nearest(source, SOURCES)
            )
    if size is not None and size < 1:
        raise OptionError(f"size={size!r} must be at least 1.")
    ids = [i for i in candidates(split) if i not in WEAK]
    if sources is not None:
        ids = [i for i in ids if i.split("-")[1] in sources]
    if not ids:
        raise OptionError(f"sources={sources!r} have no task in the split {split!r}.")
    if not 1 <= variants <= len(VARIANTS):
        raise OptionError(f"variants={variants!r} must be between 1 and {len(VARIANTS)}.")
    if split == "train":
        ids = [task_id + letter for letter in ("", *VARIANTS[1:variants]) for task_id in ids]
    pool: Pool = "eval" if split == "eval" and names == "split" else "train"
    if names == "words":
        pool = "words-eval" if split == "eval" else "words-train" if split == "train" else "words-validation"
    return TabularTasks(split, ids[:size], pool)
