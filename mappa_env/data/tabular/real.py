"""Hidden truth and column facts of a competition whose tables are files."""

from __future__ import annotations

import csv
import functools
import io
from collections.abc import Mapping, Sequence
from pathlib import Path

from mappa_env.data.tabular.baseline import Truth, constant_score, reference_score
from mappa_env.errors import DataError
from mappa_env.grading.metrics import metric_named
from mappa_env.grading.tabular import columns_of

HEAD = 2000
"""Number of training rows from which the column facts are read."""


def columns_in(train: Path, test: Path, ids: str) -> dict[str, list[str]]:
    """The features of both tables: ``num``, ``cat`` and (of either kind) ``missing``."""
    import pandas as pd

    head = pd.read_csv(train, nrows=HEAD)
    shared = [name for name in pd.read_csv(test, nrows=0).columns if name in head.columns and name != ids]
    numeric = {name: bool(pd.api.types.is_numeric_dtype(head[name])) for name in shared}
    return {
        "num": [name for name in shared if numeric[name]],
        "cat": [name for name in shared if not numeric[name]],
        "missing": [name for name in shared if bool(head[name].isna().any())],
    }


def hidden(metric: str, files: Mapping[str, Path], answers: Path, ids: str, targets: Sequence[str]) -> Truth:
    """The truth of a task, read and computed on first access; once per process unless a file changes."""
    stamps = tuple((path.stat().st_mtime_ns, path.stat().st_size) for path in (*files.values(), answers))
    return _hidden(metric, tuple(files.items()), answers, ids, tuple(targets), stamps)


@functools.lru_cache(maxsize=256)
def _hidden(
    metric: str,
    tables: tuple[tuple[str, Path], ...],
    answers: Path,
    ids: str,
    names: tuple[str, ...],
    stamps: tuple[tuple[int, int], ...],
) -> Truth:
    """``stamps``: change when a file does."""
    files = dict(tables)
    return Truth(
        {"target": names[0] if len(names) == 1 else list(names), "id": ids},
        {
            "answers_csv": functools.partial(_answers, answers, (ids, *names)),
            "labels": functools.partial(_labels, metric, files["train.csv"], names),
            "constant": functools.partial(_constant, metric, files["train.csv"], names),
            "reference": functools.partial(_reference, metric, files, names),
        },
    )


def _answers(path: Path, wanted: Sequence[str], truth: Truth) -> str:
    """The answer file with the sample submission's columns, by name, or by position if the names differ."""
    with path.open(encoding="utf-8-sig", newline="") as stream:
        rows = [row for row in csv.reader(stream) if row]
    header = [name.strip() for name in rows[0]] if rows else []
    if set(wanted) <= set(header):
        columns = [header.index(name) for name in wanted]
    elif len(header) == len(wanted):
        columns = list(range(len(wanted)))
    else:
        raise DataError(f"{path} has the columns {header}; the sample submission asks for {list(wanted)}.")
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(wanted)
    writer.writerows([row[at] for at in columns] for row in rows[1:])
    return text.getvalue()


def _known(path: Path, targets: tuple[str, ...]) -> list[list[str]]:
    import pandas as pd

    try:
        table = pd.read_csv(path, usecols=list(targets), dtype=str)
    except ValueError:
        return []  # the training table has no such column: use the answers
    rows: list[list[str]] = table[list(targets)].dropna().to_numpy().tolist()
    return rows


def _cells(text: str) -> list[list[str]]:
    return [row[1:] for row in csv.reader(io.StringIO(text))][1:]


def _labels(metric: str, train: Path, targets: tuple[str, ...], truth: Truth) -> list[str] | None:
    if metric_named(metric).takes != "label":
        return None
    return sorted({cell for row in (*_known(train, targets), *_cells(truth["answers_csv"])) for cell in row})


def _constant(metric: str, train: Path, targets: tuple[str, ...], truth: Truth) -> float:
    answers = _cells(truth["answers_csv"])
    return constant_score(
        metric, columns_of(metric, _known(train, targets) or answers), columns_of(metric, answers)
    )


def _reference(metric: str, files: Mapping[str, Path], targets: tuple[str, ...], truth: Truth) -> float:
    import pandas as pd

    ids = truth["id"]
    rows = list(csv.reader(io.StringIO(truth["answers_csv"])))[1:]
    answers = columns_of(metric, [row[1:] for row in rows])
    test = pd.read_csv(files["test.csv"], usecols=lambda name: name == ids, dtype=str)
    if ids in test.columns and sorted(test[ids]) == sorted(row[0] for row in rows):
        position = {row[0]: i for i, row in enumerate(rows)}
        answers = answers[[position[key] for key in test[ids]]]
    return reference_score(metric, files["train.csv"], files["test.csv"], targets, ids, answers)
