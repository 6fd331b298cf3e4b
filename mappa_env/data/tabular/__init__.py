"""Tabular tasks in DSBench's own layout: train.csv, test.csv, sample_submission.csv and hidden answers.

Real tables that scikit-learn ships and generated untidy ones. No row of a real table serves both splits:
``wine`` is kept for eval as a whole, ``iris`` for train, the others are cut in two. A third split,
``validation``, is to choose settings on: other draws from the rows of training.
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
VARIANTS = "abcdefghijklmnopqrstuvwxyz"
_ID = re.compile(r"(?P<split>[a-z]+)-(?P<source>[a-z]+)-(?P<index>[0-9]{3})(?P<variant>[b-z]?)")


def candidates(split: str) -> list[str]:
    """All ids before the weak ones are left out, sources taking turns, so that any head is a mixture."""
    counts = {name: _count(source, split) for name, source in SOURCES.items()}
    rows = [((i + 0.5) / count, name, i) for name, count in counts.items() for i in range(count)]
    return [f"{split}-{name}-{i:03d}" for _, name, i in sorted(rows)]


def _count(source: Source, split: str) -> int:
    return source.counts[0] // 4 if split == VALIDATION else source.counts[SPLITS.index(split)]


@functools.lru_cache(maxsize=4096)
def _built(source: str, split: str, index: int, names: Pool, variant: int = 0) -> Task:
    """Kept, because building costs milliseconds and the truth's reference model a tenth of a second.

    Variants of a task are the same table under other names, so they share its reference.
    """
    if not variant:
        return build(SOURCES[source], split, index, names)
    first = _built(source, split, index, names)
    return build(SOURCES[source], split, index, names, variant, functools.partial(_reference_of, first))


def _reference_of(task: Task, _: Mapping[str, Any]) -> float:
    return float(task.truth["reference"])


class TabularTasks:
    """``ids`` is a fixed list; tasks whose reference model hardly beats the constant are not in it."""

    name = "tabular"

    def __init__(self, split: str, ids: Sequence[str], names: Pool) -> None:
        self.split, self._names = split, names
        self._ids = tuple(ids)
        self._known = frozenset(self._ids)

    @property
    def ids(self) -> Sequence[str]:
        return self._ids

    def get(self, task_id: str) -> Task:
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
    """``split`` is ``train``, ``validation`` or ``eval``; ``size`` keeps the first so many tasks, ``sources``
    those of some.

    ``added-train`` and ``added-eval`` are the splits of the real DSBench data that was added, and a path is a
    folder of it; neither takes options.

    ``names="split"`` gives eval tasks column names that no training task has, ``"shared"`` those of training
    (for policies too small to copy a name they never saw), ``"words"`` names of two words each, those of the
    three splits disjoint. Validation tasks are named as training tasks are, except with ``"words"``.

    ``variants`` (at most 26): train tasks come under so many sets of names, the first ones first. Raises
    OptionError.
    """
    if split in ADDED or (split != VALIDATION and not is_split(split)):
        if size is not None or sources is not None or names != "split" or variants != 1:
            raise OptionError(f"generated tasks alone take size, sources, names and variants, not {split!r}.")
        from mappa_env.data import dsbench

        return dsbench.load(ADDED.get(split, split))
    if names not in NAMES:
        raise OptionError(f"names={names!r} is not offered; use one of {NAMES}." + nearest(str(names), NAMES))
    for source in sources or ():
        if source not in SOURCES:
            raise OptionError(
                f"no source {source!r}; there are {sorted(SOURCES)}." + nearest(source, SOURCES)
            )
    if size is not None and size < 1:
        raise OptionError(f"size={size!r} must be at least 1.")
    ids = [i for i in candidates(split) if i not in WEAK]
    if sources is not None:
        ids = [i for i in ids if i.split("-")[1] in sources]
    if not ids:
        raise OptionError(f"sources={sources!r} have no task in the split {split!r}.")
    if not 1 <= variants <= len(VARIANTS):
        raise OptionError(f"variants={variants!r} must be within 1-{len(VARIANTS)}.")
    if split == "train":
        ids = [task_id + letter for letter in ("", *VARIANTS[1:variants]) for task_id in ids]
    pool: Pool = "eval" if split == "eval" and names == "split" else "train"
    if names == "words":
        pool = "words-eval" if split == "eval" else "words-train" if split == "train" else "words-validation"
    return TabularTasks(split, ids[:size], pool)
