"""Adds the user's own task files to the store: checks them first, then writes them atomically."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from mappa_env.data import load_tasks
from mappa_env.data.contest import AIME, AMC
from mappa_env.data.hendrycks import FOLDERS, MATH
from mappa_env.data.leaks import check_disjoint, overlap
from mappa_env.data.problems import Problems
from mappa_env.data.sifting import Sifted
from mappa_env.data.store import SPLITS, Added, LeftOut, read_record, record, record_paths, write
from mappa_env.data.tabular import dsbench
from mappa_env.errors import DataError, MappaError, OptionError, nearest
from mappa_env.places import data_root
from mappa_env.types import Task

PROBLEMS = {each.name: each for each in (AIME, AMC, MATH)}
NAMES = (*PROBLEMS, "dsbench")


def add(name: str, path: str | Path, *, split: str | None = None, drop_overlap: bool = False) -> list[Added]:
    """Check the tasks of ``path`` and store the usable ones; the records say what is left out and why.

    ``split`` (default: ``train``) is where they go. A folder with both splits, as ``dsbench`` always is, is
    added whole. ``drop_overlap``: leave out problems of the other split; by default they are an error.
    Raises DataError if nothing is usable, OptionError, DataMissingError.
    """
    if name not in NAMES:
        raise OptionError(f"{name!r} takes no added data; choose from {NAMES}." + nearest(name, NAMES))
    if split is not None and split not in SPLITS:
        raise OptionError(f"split={split!r} is unknown; use one of {SPLITS}." + nearest(split, SPLITS))
    source = Path(path).expanduser()
    if name == "dsbench":
        if split is not None or drop_overlap:
            raise OptionError(
                f"{f'split={split!r}' if split else 'drop_overlap'} is for problems, {', '.join(PROBLEMS)}: "
                "a release of dsbench is added whole, without it."
            )
        return dsbench.add(source)
    if name == "math" and split is None and all((source / folder).is_dir() for folder in FOLDERS.values()):
        held_out = _checked(MATH.read(source / FOLDERS["eval"], "eval"), "eval", [], False)
        train = _checked(MATH.read(source / FOLDERS["train"], "train"), "train", held_out[0], drop_overlap)
        return [_store(MATH, source, "train", *train), _store(MATH, source, "eval", *held_out)]
    problems, split = PROBLEMS[name], split or "train"
    checked = _checked(problems.read(source, split), split, problems.other_split(split), drop_overlap)
    return [_store(problems, source, split, *checked)]


def _checked(
    sifted: Sifted, split: str, others: Sequence[Task], drop_overlap: bool
) -> tuple[Sequence[Task], Sequence[LeftOut]]:
    """The tasks to store, and those left out. Raises DataError."""
    sifted = sifted.readable()
    tasks, left_out = sifted.some(), list(sifted.left_out)
    if drop_overlap:
        pairs = dict(overlap(tasks, others))
        tasks = [task for task in tasks if task.id not in pairs]
        left_out += [
            LeftOut(sifted.places[own], f"{own} is in the other split, as {other}")
            for own, other in pairs.items()
        ]
        if not tasks:
            raise DataError(f"{sifted.source} has no tasks besides those of the other split.")
    train, held_out = (tasks, others) if split == "train" else (others, tasks)
    check_disjoint(train, held_out, "Leave them out with --drop-overlap.")
    return tasks, left_out


def _store(
    problems: Problems, source: Path, split: str, tasks: Sequence[Task], left_out: Sequence[LeftOut]
) -> Added:
    target = data_root() / problems.name / f"{split}.json"
    write(target, json.dumps([dict(problems.row(task)) for task in tasks], ensure_ascii=False, indent=1))
    return record(
        problems.name, split, target, source=source, tasks=len(tasks), left_out=left_out, files=[target]
    )


def verify(name: str | None = None) -> Iterator[tuple[Added, list[str]]]:
    """Each added split with its problems: files that changed, tasks that no longer load.

    Raises OptionError for a ``name`` that takes no added data, and DataError at the end if records cannot
    be read.
    """
    names = {*NAMES, *(path.parent.name for path in record_paths())}
    if name is not None and name not in names:
        raise OptionError(f"{name!r} takes no added data; choose from {NAMES}." + nearest(name, names))
    for added in readable(name):
        found = list(added.problems(contents=True))
        yield added, found or list(_unloadable(added))


def readable(name: str | None = None) -> Iterator[Added]:
    """The records of the store that can be read. Raises DataError after them if others cannot."""
    broken = []
    for path in record_paths(name):
        try:
            added = read_record(path)
        except DataError as error:
            broken.append(str(error))
        else:
            yield added
    if broken:
        raise DataError(" ".join(broken))


def _unloadable(added: Added) -> Iterator[str]:
    if not added.tasks:  # a release may have one split only
        return
    try:
        tasks = load_tasks(added.name, added.split)
    except MappaError as error:
        yield str(error)
        return
    if len(tasks.ids) != added.tasks:
        yield f"{len(tasks.ids)} tasks load instead of {added.tasks}; add them again"
    for task_id in tasks.ids:
        try:
            tasks.get(task_id)
        except MappaError as error:
            yield f"{task_id}: {error}"
