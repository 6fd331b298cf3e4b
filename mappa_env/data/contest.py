"""Contest problems (AIME, AMC) from the user's files: their texts must not be redistributed.

Rows are ``{prompt, answer}``. A problem is identified by ``year, part, problem_number``, by the ``url`` of
its page or by an ``id``. AIME answers are integers from 0 to 999, unless the row has ``answer_type:
expression``; AMC answers are numbers, which may be written as floats, or the letter of a choice.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import Any

from mappa_env.data.base import ListTaskSet
from mappa_env.data.contest_keys import number_of, part_of
from mappa_env.data.golds import gold_of
from mappa_env.data.problems import Problems
from mappa_env.data.rows import Row, prompt_of, read_entries
from mappa_env.data.sifting import Sifted, sift
from mappa_env.errors import DataError
from mappa_env.types import Task

_URL = re.compile(
    r"(?P<year>[12][0-9]{3})_[A-Z]+[0-9]*(?:_(?P<part>I+))?_Problems/Problem_(?P<number>[0-9]+)"
)


def load_aime(split: str, *, exclude: str | None = None) -> ListTaskSet:
    """AIME problems; see ``Problems.load``."""
    return AIME.load(split, exclude)


def load_amc(split: str, *, exclude: str | None = None) -> ListTaskSet:
    """AMC problems; see ``Problems.load``."""
    return AMC.load(split, exclude)


def read_contest(name: str, path: Path, split: str) -> Sifted:
    """The problems of one file. Raises DataMissingError, DataError."""
    return sift(str(path), read_entries(path), functools.partial(_task, name, path.stem, split))


def contest_row(task: Task) -> Row:
    """A task as a row of the store."""
    meta, own = task.meta, task.id.removeprefix(f"{task.topic}-")
    row = {"id": own, "prompt": task.prompt, **task.truth}
    if meta:
        row |= {"year": meta["year"], "part": meta["part"], "problem_number": meta["number"]}
    return row


AIME = Problems("aime", functools.partial(read_contest, "aime"), contest_row)
PLAIN = Problems("math", functools.partial(read_contest, "math"), contest_row)
"""Rows of any origin, read in place."""
AMC = Problems("amc", functools.partial(read_contest, "amc"), contest_row)


def _task(name: str, file: str, split: str, number: int, row: Any) -> Task:
    prompt = prompt_of(row)
    meta = _contest_key(row)
    if meta:
        own = "-".join(str(part) for part in (meta["year"], meta.get("part"), meta["number"]) if part)
    elif isinstance(row.get("id"), str) and row["id"]:
        own = row["id"]
    else:
        own = f"{file}-{number:03d}"
    return Task(
        id=own if own.startswith(name) else f"{name}-{own}",
        prompt=prompt,
        metric="exact_match",
        topic=name,
        split=split,
        truth=gold_of(row, whole=name == "aime"),
        meta=meta,
    )


def _contest_key(row: Row) -> dict[str, Any]:
    """Year, part and number, from the row's fields or its URL; empty if it has neither. Raises DataError."""
    if row.get("year") is not None and row.get("problem_number") is not None:
        for key in ("year", "part", "problem_number"):
            if isinstance(row.get(key), (bool, dict, list)):
                raise DataError(f"{key!r} must be a number or a text, found {row[key]!r:.60}.")
        year = number_of(row["year"])
        if not isinstance(year, int):
            raise DataError(f"'year' must be a year such as 2024, found {row['year']!r:.60}.")
        return {"year": year, "part": part_of(row.get("part")), "number": number_of(row["problem_number"])}
    match = _URL.search(str(row.get("url", "")))
    if match is None:
        return {}
    return {"year": int(match["year"]), "part": match["part"] or "", "number": int(match["number"])}
