"""Reads submissions, which may be any bytes, and answers into arrays whose rows are aligned by id."""

from __future__ import annotations

import csv
import functools
import io
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mappa_env.errors import DataError
from mappa_env.grading.metrics import metric_named
from mappa_env.grading.spelling import Keys, Labels, number
from mappa_env.grading.tabular import columns_of
from mappa_env.types import Task

FILE = "submission.csv"
_LONGEST_CELL = 131_072  # csv's own limit, but others in the process may have set another
_MAX_SHOWN = 60
_SPARE_BYTES = 2**20


class RefusedError(Exception):
    """A submission that cannot be scored; ``status`` says in one word why."""

    def __init__(self, status: str, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class AnswerTable(NamedTuple):
    """The hidden answers in their own order: the keys of their ``ids``, and (rows, targets) ``values``."""

    ids: list[str]
    key_of: Keys
    values: NDArray[Any]


def targets_of(task: Task) -> list[str]:
    """The names of the target columns."""
    target = task.truth["target"]
    return [target] if isinstance(target, str) else list(target)


def answers_of(task: Task) -> AnswerTable:
    """The answers of ``task``. Raises DataError if a file changed for the worse."""
    raw = task.truth["answers_csv"]
    rows = csv.reader(io.StringIO(raw.decode("utf-8-sig") if isinstance(raw, bytes) else raw))
    header = next(rows)
    columns = [header.index(name) for name in (task.truth["id"], *targets_of(task))]
    cells = [[row[at] for at in columns] for row in rows if row]
    key_of = Keys([row[0] for row in cells])
    return AnswerTable(
        [key_of(row[0]) for row in cells], key_of, columns_of(task.metric, [row[1:] for row in cells])
    )


def order_of(task: Task, answers: AnswerTable) -> list[str]:
    """The keys in the order of the host's own test.csv, or of the sample if that has no such column."""
    tables = (task.files.get(name, b"") for name in ("test.csv", "sample_submission.csv"))
    ids = next((found for table in tables if (found := _ids_of(table, task.truth["id"]))), answers.ids)
    return [answers.key_of(each) for each in ids]


def _ids_of(content: bytes | Path, name: str) -> Sequence[str]:
    """The ids in a table of the host; empty if it has no such column. Raises DataError."""
    if isinstance(content, bytes):
        return _column(content.decode("utf-8-sig"), name)
    try:
        found = content.stat()
        return _ids_in(content, name, found.st_mtime_ns, found.st_size)
    except (OSError, ValueError) as error:
        raise DataError(f"{content} can no longer be read: {error}") from None


@functools.lru_cache(maxsize=64)
def _ids_in(path: Path, name: str, changed: int, size: int) -> tuple[str, ...]:
    """The ids of a file as of ``changed``, read once; its cells may be longer than csv allows."""
    import pandas as pd

    table = pd.read_csv(path, usecols=lambda each: each == name, dtype=str, keep_default_na=False)
    return tuple(table.iloc[:, 0]) if len(table.columns) else ()


def _column(text: str, name: str) -> list[str]:
    rows = csv.reader(io.StringIO(text))
    header = next(rows, [])
    if name not in header:
        return []
    at = header.index(name)
    return [row[at] for row in rows if row]


def largest(task: Task) -> int:
    """Bytes of a submission that are read."""
    return _SPARE_BYTES + 8 * len(task.truth["answers_csv"])


def read(task: Task, data: bytes, answers: AnswerTable) -> NDArray[Any]:
    """Valid predictions in the order of the answers. Raises RefusedError."""
    return values_of(task, cells_of(task, data, answers))


def cells_of(task: Task, data: bytes, answers: AnswerTable) -> list[list[str]]:
    """The cells of each row in the order of the answers, whatever they hold. Raises RefusedError."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise RefusedError("unreadable", f"{FILE} is not UTF-8 text: {error.reason}") from None
    rows, ids = _rows(text), answers.ids
    aliases = task.truth.get("aliases", {})
    header = [aliases.get(name.strip(), name.strip()) for name in next(rows, [])]
    wanted = [task.truth["id"], *targets_of(task)]
    if sorted(header) != sorted(wanted):
        raise RefusedError("columns", f"columns must be {_shown(wanted)}, found {_shown(header)}")
    columns = [header.index(name) for name in wanted]
    cells: list[list[str]] = []
    for row in rows:
        if len(cells) == len(ids):
            raise RefusedError("rows", f"more than the {len(ids)} rows asked for")
        if len(row) != len(header):
            raise RefusedError("rows", f"row {len(cells) + 1} has {len(row)} cells, not {len(header)}")
        cells.append([row[at] for at in columns])
    if len(cells) < len(ids):
        raise RefusedError("rows", f"{len(cells)} rows instead of {len(ids)}")
    found = [answers.key_of(row[0]) for row in cells]
    spelled = dict(zip(found, (row[0].strip() for row in cells), strict=True))
    if len(set(found)) < len(found):
        raise RefusedError("ids", f"{len(found) - len(set(found))} ids are repeated")
    if strange := sorted(set(found) - set(ids)):
        raise RefusedError(
            "ids", f"{len(strange)} ids are not in test.csv, such as {_shown([spelled[strange[0]]])}"
        )
    position = position_of(found)
    return [cells[position[key]][1:] for key in ids]


def _rows(text: str) -> Iterator[list[str]]:
    """The non-empty rows. Raises RefusedError for a cell of over ``_LONGEST_CELL`` characters."""
    reader = csv.reader(io.StringIO(text, newline=""))
    while True:
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise RefusedError("unreadable", f"{FILE} line {reader.line_num}: {error}") from None
        if any(len(cell) > _LONGEST_CELL for cell in row):
            raise RefusedError("unreadable", f"{FILE} line {reader.line_num}: a cell is too long")
        if row:
            yield row


def values_of(task: Task, rows: Sequence[Sequence[str]]) -> NDArray[Any]:
    """Predictions as the metric compares them. Raises RefusedError."""
    metric = metric_named(task.metric)
    if metric.takes == "text":
        return columns_of(task.metric, rows)
    if metric.takes in ("label", "ranking"):
        return np.array(_labelled(task, rows, ranking=metric.takes == "ranking"), dtype=object)
    try:
        pred = np.array([[number_in(cell) for cell in row] for row in rows])
    except ValueError:
        raise RefusedError("values", f"{task.metric} needs a number in every row") from None
    problem = metric.illegal(pred)
    least = task.meta.get("least")
    if problem is None and least is not None and np.any(pred < least):
        problem = f"{metric.name} needs predictions >= {least:g}, found {float(pred.min()):g}"
    if problem:
        raise RefusedError("range" if np.all(np.isfinite(pred)) else "values", problem)
    return pred


def _labelled(task: Task, rows: Sequence[Sequence[str]], *, ranking: bool) -> list[list[str]]:
    """Known labels in their one spelling; for a ranking at least one of them, separated by spaces."""
    labels = Labels(task.truth["labels"])
    spelled: dict[str, str] = {}  # there are few labels and many rows
    for cell in sorted({cell for row in rows for cell in row}):  # the reason is always the same
        names = [labels(name) for name in (cell.split() if ranking else [cell])]
        wrong = [name for name in names if name not in labels.known]
        if wrong or not names:
            known = _shown(sorted(labels.known)[:6])
            raise RefusedError("values", f"{_shown(wrong[:1] or [cell])} is not one of the labels {known}")
        spelled[cell] = " ".join(names)
    return [[spelled[cell] for cell in row] for row in rows]


def number_in(cell: str) -> float:
    """``True`` and ``False`` count as 1 and 0. Raises ValueError."""
    flag = {"true": 1.0, "false": 0.0}.get(cell.strip().lower())
    return number(cell) if flag is None else flag


def position_of(keys: Iterable[str]) -> dict[str, int]:
    """Key -> row."""
    return {key: i for i, key in enumerate(keys)}


def _shown(names: Sequence[str]) -> str:
    text = ", ".join(repr(name) for name in names)
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}..."
