"""Contest problems (AIME, AMC) from the user's files: their texts must not be redistributed.

Rows are ``{prompt, answer}``. A problem is identified by ``year, part, problem_number``, by the ``url`` of
its page or by an ``id``. AIME answers are integers 0-999, AMC answers numbers that may be written as floats.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mappa_env.data.base import ListTaskSet
from mappa_env.data.leaks import check_disjoint, distinct, fingerprints
from mappa_env.data.rows import Row, answer_of, read_rows
from mappa_env.data.store import SPLITS, is_split, stored
from mappa_env.types import Task

_URL = re.compile(
    r"(?P<year>[12][0-9]{3})_[A-Z]+[0-9]*(?:_(?P<part>I+))?_Problems/Problem_(?P<number>[0-9]+)"
)


def load_aime(split: str, *, exclude: str | None = None) -> ListTaskSet:
    """AIME problems; see ``load_contest``."""
    return load_contest("aime", split, exclude)


def load_amc(split: str, *, exclude: str | None = None) -> ListTaskSet:
    """AMC problems; see ``load_contest``."""
    return load_contest("amc", split, exclude)


def load_contest(name: str, split_or_path: str, exclude: str | None = None) -> ListTaskSet:
    """Problems of the stored split, or of the file at a path; repeated problems count once.

    ``exclude``: a file of problems to drop. Raises DataError if the stored training split has a problem of
    the stored held-out split; also DataMissingError, OptionError.
    """
    if is_split(split_or_path):
        tasks = read_contest(name, stored(name, split_or_path), split_or_path)
        _check_stored(name, split_or_path, tasks)
    else:
        tasks = read_contest(name, Path(split_or_path), "")
    if exclude is not None:
        tasks = without(tasks, read_contest(name, Path(exclude), ""))
    return ListTaskSet(name, split_or_path, tasks)


def read_contest(name: str, path: Path, split: str) -> list[Task]:
    """The distinct problems of one file."""
    rows = read_rows(path)
    return list(distinct(_task(name, path, i, row, split) for i, row in enumerate(rows)))


def without(tasks: Sequence[Task], others: Sequence[Task]) -> list[Task]:
    """``tasks`` except those that are also in ``others``."""
    known = {mark for task in others for mark in fingerprints(task)}
    return [task for task in tasks if known.isdisjoint(fingerprints(task))]


def _check_stored(name: str, split: str, tasks: Sequence[Task]) -> None:
    other = next(s for s in SPLITS if s != split)
    path = stored(name, other, missing_ok=True)
    if path is None:
        return
    others = read_contest(name, path, other)
    train, held_out = (tasks, others) if split == "train" else (others, tasks)
    check_disjoint(
        train, held_out, f"Add the training file again with: mappa-env data add {name} PATH --drop-overlap"
    )


def _task(name: str, path: Path, index: int, row: Row, split: str) -> Task:
    meta = _contest_key(row)
    if meta:
        own = "-".join(str(part) for part in (meta["year"], meta.get("part"), meta["number"]) if part)
    elif isinstance(row.get("id"), str) and row["id"]:
        own = row["id"]
    else:
        own = f"{path.stem}-{index:03d}"
    return Task(
        id=own if own.startswith(name) else f"{name}-{own}",
        prompt=row["prompt"].strip(),
        metric="exact_match",
        topic=name,
        split=split,
        truth={"answer": answer_of(row, f"{path}, row {index + 1}")},
        meta=meta,
    )


def _contest_key(row: Row) -> dict[str, Any]:
    """Year, part and number, from the row's fields or its URL; empty if it has neither."""
    if row.get("year") is not None and row.get("problem_number") is not None:
        return {"year": row["year"], "part": row.get("part") or "", "number": row["problem_number"]}
    match = _URL.search(str(row.get("url", "")))
    if match is None:
        return {}
    return {"year": int(match["year"]), "part": match["part"] or "", "number": int(match["number"])}
