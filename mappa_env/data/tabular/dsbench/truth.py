"""Hidden truth and column facts of a competition whose tables are files."""

from __future__ import annotations

import csv
import functools
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from mappa_env.data.stamps import Stamps, check_unchanged, stamps_of
from mappa_env.data.tabular.baseline import Truth, constant_score, reference_score
from mappa_env.data.tabular.cells import filled, targets_in
from mappa_env.data.tabular.dsbench.layout import Layout, columns_for
from mappa_env.data.tabular.dsbench.release import Files
from mappa_env.errors import DataError
from mappa_env.grading.metrics import metric_named
from mappa_env.grading.spelling import Keys
from mappa_env.grading.tabular import columns_of

HEAD = 2000
"""Number of training rows from which the column facts are read."""

_P = ParamSpec("_P")
_R = TypeVar("_R")


def _data_errors(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Files that changed since they were checked raise DataError, whatever they do to a reader."""

    @functools.wraps(function)
    def careful(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        try:
            return function(*args, **kwargs)
        except (ValueError, TypeError, LookupError, ArithmeticError, OSError, csv.Error) as error:
            if isinstance(error, DataError):
                raise
            name = next(each.answers.parent.name for each in args if isinstance(each, Files))
            raise DataError(
                f"the files of {name} passed their checks, but cannot be used: {error}. If they changed "
                "since, check them again with: mappa-env data add dsbench PATH"
            ) from error

    return careful


@_data_errors
def columns_in(files: Files, layout: Layout) -> dict[str, list[str]]:
    """The features of both tables: ``num``, ``cat`` and (of either kind) ``missing``."""
    import pandas as pd

    head = pd.read_csv(files.train, nrows=HEAD)
    hidden = {layout.ids, *layout.targets}
    test = pd.read_csv(files.test, nrows=0).columns
    shared = [name for name in test if name in head.columns and name not in hidden]
    numeric = {name: bool(pd.api.types.is_numeric_dtype(head[name])) for name in shared}
    return {
        "num": [name for name in shared if numeric[name]],
        "cat": [name for name in shared if not numeric[name]],
        "missing": [name for name in shared if bool(head[name].isna().any())],
    }


@_data_errors
def hidden(metric: str, files: Files, layout: Layout) -> Truth:
    """The truth of a task, once per process unless a file changes.

    ``reference`` is computed on first access: it takes seconds for large tables. Everything raises DataError.
    """
    stamps = stamps_of(_paths(files))
    truth = _hidden(metric, files, layout.ids, layout.targets, tuple(layout.aliases.items()), stamps)
    for key in ("answers_csv", "labels", "constant"):
        truth[key]
    return truth


@functools.lru_cache(maxsize=256)
def _hidden(
    metric: str,
    files: Files,
    ids: str,
    names: tuple[str, ...],
    aliases: tuple[tuple[str, str], ...],
    stamps: Stamps,
) -> Truth:
    """``stamps``: of the files; a value that was read from changed ones is refused."""
    later: dict[str, Callable[[Truth], Any]] = {
        "answers_csv": functools.partial(_answers, files.answers, (ids, *names)),
        "labels": functools.partial(_labels, metric, files.train, names),
        "constant": functools.partial(_constant, metric, files.train, names),
        "reference": functools.partial(_reference, metric, files, names),
    }
    return Truth(
        {"target": names[0] if len(names) == 1 else list(names), "id": ids, "aliases": dict(aliases)},
        {key: functools.partial(_pinned, read, files, stamps) for key, read in later.items()},
    )


def _pinned(read: Callable[[Truth], Any], files: Files, stamps: Stamps, truth: Truth) -> Any:
    """What ``read`` finds. Raises DataError if the files are not those of ``stamps``."""
    check_unchanged(stamps, _paths(files))
    found = read(truth)
    check_unchanged(stamps, _paths(files))
    return found


def _paths(files: Files) -> tuple[Path, ...]:
    return files.train, files.test, files.sample, files.answers


def _answers(path: Path, wanted: tuple[str, ...], truth: Truth) -> str:
    """The answer file with the names of the task's columns."""
    columns = columns_for(path, wanted, truth["aliases"])
    with path.open(encoding="utf-8-sig", newline="") as stream:
        rows = [row for row in csv.reader(stream) if row]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(wanted)
    writer.writerows([row[at] for at in columns] for row in rows[1:])
    return text.getvalue()


def _known(path: Path, targets: tuple[str, ...]) -> list[list[str]]:
    table = targets_in(path, targets)
    rows: list[list[str]] = table[filled(table)].to_numpy().tolist()
    return rows


def _cells(text: str) -> list[list[str]]:
    return [row[1:] for row in csv.reader(io.StringIO(text))][1:]


def _labels(metric: str, train: Path, targets: tuple[str, ...], truth: Truth) -> list[str] | None:
    if metric_named(metric).takes not in ("label", "ranking"):
        return None
    return sorted({cell for row in (*_known(train, targets), *_cells(truth["answers_csv"])) for cell in row})


def _constant(metric: str, train: Path, targets: tuple[str, ...], truth: Truth) -> float:
    answers = columns_of(metric, _cells(truth["answers_csv"]))
    return constant_score(metric, columns_of(metric, _known(train, targets)), answers)


@_data_errors
def _reference(metric: str, files: Files, targets: tuple[str, ...], truth: Truth) -> float:
    import pandas as pd

    ids = truth["id"]
    rows = list(csv.reader(io.StringIO(truth["answers_csv"])))[1:]
    answers: Any = columns_of(metric, [row[1:] for row in rows])
    key_of = Keys([row[0] for row in rows])
    position = {key_of(row[0]): i for i, row in enumerate(rows)}
    ordered = files.test if ids in pd.read_csv(files.test, nrows=0).columns else files.sample
    order = pd.read_csv(ordered, usecols=[ids], dtype=str, keep_default_na=False)[ids]
    answers = answers[[position[key_of(key)] for key in order]]
    return reference_score(metric, files.train, files.test, targets, ids, answers)
