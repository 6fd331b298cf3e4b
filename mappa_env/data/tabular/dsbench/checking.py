"""Checks a competition for everything that a later step would fail on, and names file, row and reason."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mappa_env.data.tabular.dsbench.layout import Layout, columns_for, header_of
from mappa_env.data.tabular.dsbench.missing import check_missing
from mappa_env.data.tabular.dsbench.release import Files
from mappa_env.data.tabular.dsbench.round_trip import lost
from mappa_env.data.tabular.dsbench.row_widths import row_widths
from mappa_env.errors import DataError
from mappa_env.grading.metrics import MAX_ABS, Metric, metric_named
from mappa_env.grading.spelling import Keys, Labels, canonical
from mappa_env.grading.spelling import number as number_of
from mappa_env.grading.tabular import columns_of, score_of

_BLOCK = 2**22
_CHUNK = 50_000
_NUMERIC = ("score", "probability", "number", "nonnegative")
_TWO_CLASSES = ("roc_auc", "mean_roc_auc", "log_loss", "f1")
_ONE_VALUE = ("r2", "pearson", "spearman", "mean_spearman", "normalized_gini", "qwk")
_ROUNDING = 1e-9


def check(files: Files, layout: Layout, metric: str) -> None:
    """Raise DataError, with file, row and reason, for the first thing that is wrong with a competition.

    Reads all files whole: about a second for 50 MB.
    """
    for path in (files.train, files.test, files.sample, files.answers):
        _check_bytes(path)
    wanted = (layout.ids, *layout.targets)
    _check_rows(files.train, wanted)
    n_test = _check_rows(files.test, wanted)
    answers = _cells(files.answers, columns_for(files.answers, wanted, layout.aliases))
    asked = _check_ids(files.answers, [row[0] for row in answers])
    _same_ids(files.sample, [row[0] for row in _cells(files.sample, [0])], files.answers, asked)
    if len(answers) != n_test:
        raise DataError(f"{files.test} has {n_test} rows, but {files.answers} has {len(answers)}")
    if layout.ids in header_of(files.test):
        _same_ids(files.test, [row[0] for row in _columns(files.test, [layout.ids])], files.answers, asked)
    known = metric_named(metric)
    learned = enumerate(_columns(files.train, layout.targets), 1)
    filled = [(number, row) for number, row in learned if all(map(str.strip, row))]
    if known.takes in ("label", "ranking", "score", "probability"):
        asked_rows = [(number, row[1:]) for number, row in enumerate(answers, 1)]
        check_missing(layout.targets, {files.answers: asked_rows, files.train: filled})
    _check_values(files.answers, layout.targets, [row[1:] for row in answers], known)
    _check_truth(files.answers, layout.targets, [row[1:] for row in answers], known)
    if len(filled) < 2:
        raise DataError(f"{files.train} has {len(filled)} rows with a target; a model needs two")
    learned_rows = [row for _, row in filled]
    _check_values(files.train, layout.targets, learned_rows, known, [n for n, _ in filled])
    if all(len({_value(row[at]) for row in learned_rows}) == 1 for at in range(len(layout.targets))):
        only = f"{_shown(_value(learned_rows[0][0]))!r:.60}"
        raise DataError(
            f"{files.train}, column {layout.targets[0]!r}: all targets are {only}: nothing can be learned"
        )
    if known.takes in ("score", "probability"):
        _same_classes(files, layout.targets, learned_rows, [row[1:] for row in answers])
    if known.takes in ("label", "ranking"):
        _same_labels_back(files, layout.targets, filled, [row[1:] for row in answers])
        one, other = (
            {canonical(cell) for row in rows for cell in row}
            for rows in ([row for _, row in filled], [row[1:] for row in answers])
        )
        if one.isdisjoint(other):
            shown = f"{sorted(other)[:3]} and {sorted(one)[:3]}"
            raise DataError(f"{files.answers} and {files.train} have no label in common, such as {shown}")


def _check_bytes(path: Path) -> None:
    """The file is UTF-8 text without NUL characters."""
    line = 1
    rest = b""
    try:
        with path.open("rb") as stream:
            while block := stream.read(_BLOCK):
                data, rest = rest + block, b""
                if (at := data.find(b"\0")) >= 0:
                    bad = line + data.count(b"\n", 0, at)
                    raise DataError(f"{path}, line {bad}: a NUL character")
                try:
                    data.decode("utf-8")
                except UnicodeDecodeError as error:
                    if error.end < len(data) or error.reason != "unexpected end of data":
                        bad = line + data.count(b"\n", 0, error.start)
                        raise DataError(f"{path}, line {bad}: not UTF-8 text ({error.reason})") from None
                    rest = data[error.start :]
                line += data.count(b"\n", 0, len(data) - len(rest))
    except OSError as error:
        raise DataError(f"{path}: {error.strerror or error}") from None
    if rest:
        raise DataError(f"{path}, line {line}: not UTF-8 text (it ends within a character)")


def unlearned(files: Files, layout: Layout, metric: str) -> Iterator[str]:
    """The labels of checked answers that no row of train.csv has: nobody can predict them but by chance."""
    if metric_named(metric).takes not in ("label", "ranking"):
        return
    learned = [row for row in _columns(files.train, layout.targets) if all(map(str.strip, row))]
    wanted = (layout.ids, *layout.targets)
    answers = _cells(files.answers, columns_for(files.answers, wanted, layout.aliases)[1:])
    for at, name in enumerate(layout.targets):
        labels = {canonical(row[at]) for row in learned}
        found = [(n, row[at]) for n, row in enumerate(answers, 1) if canonical(row[at]) not in labels]
        for number, text in found[:1]:
            yield (
                f"{files.answers}, row {number}, column {name!r}: the label {text!r:.60} is nowhere in "
                f"{files.train.name}; {len(found)} of {len(answers)} answers have such a label"
            )


def _check_rows(path: Path, hidden: Sequence[str]) -> int:
    """The number of rows. pandas, with which agents read tables, finds that they fit the header.

    No column but the ``hidden`` ones has an infinite number, of which no model can learn.
    """
    import pandas as pd

    rows = 0
    try:
        pd.read_csv(path, header=None, nrows=2, dtype=str)
    except pd.errors.ParserError as error:
        if "Expected" in str(error):  # with a header, pandas would take the first column for row names
            raise DataError(f"{path}, row 1: more cells than the header has names") from None
    except (ValueError, OSError):
        pass  # the reader below says why
    try:
        for chunk in pd.read_csv(path, chunksize=_CHUNK, low_memory=False):
            rows += len(chunk)
            _check_finite(path, chunk.drop(columns=list(hidden), errors="ignore").select_dtypes("float"))
    except DataError:
        raise
    except (ValueError, OSError) as error:
        raise DataError(f"{path} is not a CSV table: {' '.join(str(error).split())}") from None
    if not rows:
        raise DataError(f"{path} has no rows")
    _check_widths(path)
    return rows


def _check_finite(path: Path, numbers: Any) -> None:
    """No cell of a frame of numbers is infinite, as ``inf`` and ``1e400`` are."""
    wrong = np.argwhere(np.isinf(numbers.to_numpy()))
    if len(wrong):
        row, column = numbers.index[wrong[0][0]] + 1, str(numbers.columns[wrong[0][1]])
        raise DataError(
            f"{path}, row {row}, column {column!r}: an infinite number, of which no model can learn; leave "
            "the cell empty where the value is missing"
        )


def _check_widths(path: Path) -> None:
    """No row is short: pandas would fill it, and nobody would know which cells are missing."""
    with path.open(encoding="utf-8-sig", newline="") as stream:
        widths = row_widths(stream)
        header = next(widths, 0)
        for number, width in enumerate(widths, 1):
            if width < header:
                raise DataError(f"{path}, row {number}: {width} cells, but the header has {header}")


def _columns(path: Path, names: Sequence[str]) -> list[list[str]]:
    """The rows of some columns as text; missing cells are empty."""
    import pandas as pd

    parts: list[list[str]] = []
    try:
        header = list(pd.read_csv(path, nrows=0).columns)
        if absent := [name for name in names if name not in header]:
            raise DataError(f"{path} has no column {absent[0]!r}, found {header}")
        at = [header.index(name) for name in names]
        order = [sorted(at).index(each) for each in at]  # usecols keeps the order of the file
        for chunk in pd.read_csv(path, usecols=at, dtype=str, keep_default_na=False, chunksize=_CHUNK):
            parts += chunk.iloc[:, order].fillna("").to_numpy().tolist()
    except DataError:
        raise
    except (ValueError, OSError) as error:
        raise DataError(f"{path} is not a CSV table: {' '.join(str(error).split())}") from None
    return parts


def _cells(path: Path, columns: Sequence[int]) -> list[list[str]]:
    """The cells of a file with answers or a sample, as the grader reads them."""
    with path.open(encoding="utf-8-sig", newline="") as stream:
        try:
            return list(_rows(path, csv.reader(stream), columns))
        except csv.Error as error:
            raise DataError(f"{path} is not a CSV table: {error}") from None


def _rows(path: Path, rows: Iterator[list[str]], columns: Sequence[int]) -> Iterator[list[str]]:
    width = len(next(rows, []))
    for number, row in enumerate((row for row in rows if row), 1):
        if len(row) != width:
            raise DataError(f"{path}, row {number}: {len(row)} cells, but the header has {width}")
        yield [row[at] for at in columns]


def _check_ids(path: Path, ids: Sequence[str]) -> tuple[Keys, dict[str, int]]:
    """How ids compare, and key -> row. They are there and differ."""
    if not ids:
        raise DataError(f"{path} has no rows")
    key_of = Keys(ids)
    rows: dict[str, int] = {}
    for number, text in enumerate(ids, 1):
        key = key_of(text)
        if not key:
            raise DataError(f"{path}, row {number}: the id is empty")
        if key in rows:
            raise DataError(f"{path}, row {number}: the id {text!r} is already in row {rows[key]}")
        rows[key] = number
    return key_of, rows


def _same_ids(path: Path, ids: Sequence[str], answers: Path, asked: tuple[Keys, dict[str, int]]) -> None:
    """``path`` has the ids of the answers, each once."""
    key_of, wanted = asked
    rows: dict[str, int] = {}
    for number, text in enumerate(ids, 1):
        key = key_of(text)
        if key in rows:
            raise DataError(f"{path}, row {number}: the id {text!r} is already in row {rows[key]}")
        if key not in wanted:
            raise DataError(f"{path}, row {number}: the id {text!r} is not in {answers}")
        rows[key] = number
    if missing := [key for key in wanted if key not in rows]:
        raise DataError(
            f"{answers}, row {wanted[missing[0]]}: the id {missing[0]!r} is not in {path} "
            f"({len(missing)} of {len(wanted)} ids are missing there)"
        )
    if found := lost(ids, key_of):
        text, back = found
        raise DataError(
            f"{path}, row {rows[key_of(text)]}: pandas reads the id {text!r} and writes {back!r}, which is "
            "not found again: rename the id in all tables"
        )


def _check_values(
    path: Path,
    targets: Sequence[str],
    rows: Sequence[Sequence[str]],
    metric: Metric,
    numbers: Sequence[int] | None = None,
) -> None:
    """Every cell of the targets is of the metric's type. ``numbers``: those of the rows, if not 1, 2, ..."""
    for at, name in enumerate(targets):
        column = [row[at] for row in rows]
        cells = dict.fromkeys(column)  # there are often few different ones
        named = metric.takes in ("score", "probability") and not all(map(_is_number, cells))
        for text in cells:
            if problem := _wrong(text, metric, named):
                index = column.index(text)
                number = index + 1 if numbers is None else numbers[index]
                raise DataError(f"{path}, row {number}, column {name!r}: {problem}")
        if named and len(kinds := {canonical(text) for text in column}) != 2:
            shown = sorted(kinds)[:5]
            raise DataError(
                f"{path}, column {name!r}: {metric.name} needs numbers or two classes, found {shown}"
            )


def _wrong(text: str, metric: Metric, named: bool) -> str:
    """Why a target's cell is of the wrong type; empty if it is not."""
    if not text.strip():
        return "the target is empty"
    if metric.takes == "ranking" and len(text.split()) > 1:
        return f"{metric.name} needs labels without spaces, found {text!r:.60}"
    if metric.name == "qwk" and not _is_number(text):
        return f"qwk needs numeric labels, found {text!r:.60}"
    if metric.takes not in _NUMERIC or named:
        return ""
    if not _is_number(text):
        return f"{metric.name} needs numbers, found {text!r:.60}"
    if metric.takes == "nonnegative" and number_of(text) < 0:
        return f"{metric.name} needs values >= 0, found {text!r:.60}"
    if metric.takes == "probability" and not 0 <= number_of(text) <= 1:
        return f"{metric.name} needs values between 0 and 1, found {text!r:.60}"
    return ""


def _is_number(text: str) -> bool:
    try:
        return abs(number_of(text)) <= MAX_ABS
    except ValueError:
        return False


def _same_classes(
    files: Files, targets: Sequence[str], learned: Sequence[Sequence[str]], answers: Sequence[Sequence[str]]
) -> None:
    """Where a target has names, both tables have the same two: their order decides which one is 1."""
    for at, name in enumerate(targets):
        one, other = ({canonical(row[at]) for row in rows} for rows in (learned, answers))
        if not (all(map(_is_number, one)) and all(map(_is_number, other))) and _known(one, other) != one:
            shown = f"{sorted(other)[:3]} and {sorted(one)[:3]}"
            raise DataError(f"{files.answers} and {files.train}, column {name!r}: other classes, {shown}")


def _same_labels_back(
    files: Files,
    targets: Sequence[str],
    learned: Sequence[tuple[int, Sequence[str]]],
    answers: Sequence[Sequence[str]],
) -> None:
    """An agent's program can write each label of train.csv (``learned``: by row) so that it is understood."""
    rows = [*(row for _, row in learned), *answers]
    labels = Labels({cell for row in rows for cell in row})
    for at, name in enumerate(targets):
        first: dict[str, int] = {}
        for number, row in learned:
            first.setdefault(row[at], number)
        if found := lost(list(first), labels):
            text, back = found
            raise DataError(
                f"{files.train}, row {first[text]}, column {name!r}: pandas reads the label {text!r} and "
                f"writes {back!r}, which is no label: rename the label there and in {files.answers}"
            )


def _known(one: Iterable[str], other: Iterable[str]) -> set[str]:
    """The labels of ``other`` as ``one`` spells them."""
    return set(map(Labels(one), other))


def _check_truth(path: Path, targets: Sequence[str], rows: Sequence[Sequence[str]], metric: Metric) -> None:
    """The answers tell good predictions from bad ones."""
    kinds = [{_value(row[at]) for row in rows} for at in range(len(targets))]
    for name, found in zip(targets, kinds, strict=True):
        if metric.name in _TWO_CLASSES and len(found) != 2:
            shown = sorted(map(_shown, found))[:5]
            raise DataError(f"{path}, column {name!r}: {metric.name} needs two classes, found {shown}")
        if metric.name in _ONE_VALUE and len(found) == 1:
            raise DataError(f"{path}, column {name!r}: {metric.name} of a single value is not defined")
    if len(rows) > 1 and all(len(found) == 1 for found in kinds):
        only = f"{_shown(*kinds[0])!r:.60}"
        raise DataError(f"{path}, column {targets[0]!r}: all answers are {only}: a constant is perfect")
    table = columns_of(metric.name, rows)
    if metric.columns == "classes":
        wrong = np.flatnonzero((table.sum(axis=1) != 1) | (table.max(axis=1) != 1))
        if len(targets) < 2 or len(wrong):
            row = f", row {wrong[0] + 1}" if len(wrong) else ""
            raise DataError(f"{path}{row}: {metric.name} needs one column of 0 and 1 for each class")
        return
    for at, name in enumerate(targets):
        best = score_of(metric.name, table[:, [at]], table[:, [at]])
        if not abs(best - metric.ideal) <= _ROUNDING:
            raise DataError(
                f"{path}, column {name!r}: the answers themselves have a {metric.name} of {best:g}, not of "
                f"{metric.ideal:g}"
            )


def _value(text: str) -> float | str:
    """What a cell means: ``1`` and ``1e0`` are one value."""
    return number_of(text) if _is_number(text) else canonical(text)


def _shown(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:g}"
