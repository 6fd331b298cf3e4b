"""A card's own tasks: ``tasks/train.jsonl`` and ``tasks/eval.jsonl`` next to its ``card.yaml``."""

from __future__ import annotations

import re
from pathlib import Path

from mappa_env.data.base import ListTaskSet
from mappa_env.data.golds import refused_golds
from mappa_env.data.leaks import check_disjoint
from mappa_env.data.rows import Row, answer_of, check_storable, read_rows
from mappa_env.data.store import SPLITS, is_split
from mappa_env.errors import DataError
from mappa_env.types import Task

_FIELDS = ("id", "prompt", "answer", "compact", "topic", "metric")
_FORMULA = re.compile(
    r"""(?s: .*\\.*                           # LaTeX
    | (?! [A-Z]?[-+#*/]{1,2} $ )            # not a sign alone, nor a mark such as A+
      (?= .*[-0-9+*/^=<>()\[\]{}] )         # more than letters and punctuation
      (?! .*[A-Za-z]{2} ) [ -~\s]+ )         # and no word, nor any other script
    """,
    re.VERBOSE,
)
"""An answer that is meant as mathematics."""


def load(split: str, *, folder: str = "tasks") -> ListTaskSet:
    """Load the rows of ``<folder>/<split>.jsonl``, or of the file whose path is ``split``.

    A row is ``{id, prompt, answer}`` with optional ``compact, topic, metric``; all other keys are public and
    go to ``Task.meta``. An answer that is a formula must be one that the maths grader can read. ``train`` and
    ``eval`` of one folder must not have a problem in common. Raises DataMissingError, DataError.
    """
    if not is_split(split):
        return ListTaskSet("jsonl", split, _read(Path(split), ""))
    tasks = {name: _read(_file(folder, name), name) for name in SPLITS if name == split or _has(folder, name)}
    if len(tasks) == 2:
        check_disjoint(tasks["train"], tasks["eval"], f"Remove them from {_file(folder, 'train')}.")
    return ListTaskSet("jsonl", split, tasks[split])


def _file(folder: str, split: str) -> Path:
    return Path(folder) / f"{split}.jsonl"


def _has(folder: str, split: str) -> bool:
    return _file(folder, split).is_file()


def _read(path: Path, split: str) -> list[Task]:
    tasks = [_task(path, i, row, split) for i, row in enumerate(read_rows(path), 1)]
    seen: set[str] = set()
    for task in tasks:
        if task.id in seen:
            raise DataError(f"{path}: the id {task.id!r} occurs twice; ids must be unique.")
        seen.add(task.id)
    formulas = [
        task
        for task in tasks
        if task.metric == _DEFAULTS["metric"] and _FORMULA.fullmatch(task.truth["answer"])
    ]
    for own, reason in refused_golds(formulas).items():
        raise DataError(
            f"{path}, task {own!r}: {reason}. If it is no formula, give the row another 'metric'."
        )
    return tasks


def _task(path: Path, number: int, row: Row, split: str) -> Task:
    where = f"{path}, row {number}"
    texts = {key: row.get(key, default) for key, default in _DEFAULTS.items()}
    for key, value in texts.items():
        if not isinstance(value, str):
            raise DataError(f"{where}: {key!r} must be a string, found {value!r:.60}.")
    try:
        check_storable({**row, "the names of the keys": list(row)})
    except DataError as error:
        raise DataError(f"{where}: {error}") from None
    if not texts["id"]:
        raise DataError(f"{where}: 'id' is missing; every task needs a unique id.")
    return Task(
        **texts,
        prompt=row["prompt"],
        split=split,
        truth={"answer": answer_of(row)},
        meta={key: value for key, value in row.items() if key not in _FIELDS},
    )


_DEFAULTS = {"id": "", "compact": "", "topic": "", "metric": "exact_match"}
