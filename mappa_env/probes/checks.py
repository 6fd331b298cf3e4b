"""Consistency of exported tables with each other and with the task's own files, as JSON values."""

from __future__ import annotations

from typing import Any

import numpy as np

from mappa_env.grading.metrics import MAX_ABS
from mappa_env.probes.alignment import labels_follow, rescaled, rows_follow
from mappa_env.probes.association import MANY_VALUES, Column, missing
from mappa_env.probes.columns import places_of
from mappa_env.probes.csv_table import CsvTable, targets_in
from mappa_env.probes.labels import codes_of, is_number, labels_in, labels_of, labels_seen, share_known
from mappa_env.probes.lost import lost
from mappa_env.probes.one_hot import OneHot
from mappa_env.probes.opening import HEAD_ROWS
from mappa_env.probes.plain import Table
from mappa_env.probes.rows import FEW_ROWS, rows_of

Facts = dict[str, Any]
MAX_NAME = 60
"""Characters of a name that are listed."""
_RENAMED = 0.95
"""Fewer equal labels than this may be others' names."""


def checks_of(
    tables: list[Table | None],
    train: CsvTable,
    test: CsvTable,
    one_hot: OneHot | None,
    *,
    labels: bool,
) -> Facts:
    """All of it; a key exists only if it can be told."""
    x, y, z = tables
    checks: Facts = {"train_rows": train.rows, "test_rows": test.rows}
    if x is not None and z is not None:
        # Columns without names, as arrays have them, go by their places.
        named = x.named and z.named
        checks["columns_match"] = x.cols == z.cols and (x.names == z.names or not named)
    if x is not None and y is not None:
        checks["rows_match"] = x.rows == y.rows
    if z is not None and test.rows is not None:
        checks["test_rows_match"] = z.rows == test.rows
    targets = targets_in(train, test)
    if y is not None:
        checks |= _label_facts(y, targets, train, labels=labels)
        if one_hot is not None:
            checks["one_hot"] = "coded" if one_hot.coded else "named"
            checks["label_words"] = 0
        checks["labels_kept"] = _labels_kept(y, targets, train)
        if labels and (codes := codes_of(y, targets, train)):
            checks["codes"] = codes
    same = (labels and checks.get("labels_known") == 1) or checks.get("labels_kept", False)
    rows = None if x is None else rows_of(x, targets, train)
    if x is not None and rows is not None:
        checks["rows_in_place"] = rows.in_place
        follow = None if y is None else labels_follow(x, y, targets, train, rows, labels=same)
        if one_hot is not None and rows.names:
            follow = one_hot.follows
        checks |= {} if follow is None else {"labels_follow": follow}
        if same and y is not None and follow is not None and follow < _RENAMED:
            checks["labels_related"] = labels_follow(x, y, targets, train, rows, labels=False)
    if z is not None and rows is not None and (follow := rows_follow(z, test, train, rows.names)) is not None:
        checks["test_rows_follow"] = follow
    if x is not None and z is not None and rows is not None:
        off = rescaled(x, z, train, test, rows)
        if off is not None:
            checks["scales_match"] = not off
            checks["scales_off"] = [name[:MAX_NAME] for name in off[:8]]
    if x is not None:
        checks["target_leaked"] = leaked(x, y, targets, train)
        if y is not None and z is not None:
            checks["target_lost"] = [name[:MAX_NAME] for name in lost(x, y, z, test)]
        checks["id_kept"] = bool(test.header) and test.header[0] in x.names
    return checks


def leaked(x: Table, y: Table | None, targets: list[str], train: CsvTable) -> list[str]:
    """Feature columns that hold the target: by name, by one-hot name, or by repeating its values."""
    names = {*targets, *(f"{target}_{label}" for target in targets for label in _labels(train, target))}
    found = names.intersection(x.names)
    if y is not None and y.rows == x.rows >= FEW_ROWS:
        most = min(HEAD_ROWS, x.kept, y.kept)
        truths = {_content(each) for each in y.columns(most) if len(each) and (each != each[0]).any()}
        columns = zip(x.names, x.columns(most), strict=True) if truths else ()
        found |= {name for name, column in columns if _content(column) in truths}
    return [name[:MAX_NAME] for name in sorted(found)][:8]


def _labels(train: CsvTable, target: str) -> set[str]:
    """The values of a target in train.csv, as one-hot names have them."""
    if target not in train.header:
        return set()
    at = train.header.index(target)
    cells = {row[at].strip() for row in train.head if at < len(row)}
    return cells | {form for cell in cells for form in _number_forms(cell)}


def _number_forms(cell: str) -> tuple[str, ...]:
    try:
        return str(float(cell)), f"{float(cell):g}"
    except ValueError:
        return ()


def _content(column: Column) -> bytes:
    """Equal for columns of equal values; where they have few, also for codes of equal values."""
    values, places = np.unique(column[~missing(column)], return_inverse=True)
    if len(values) <= min(MANY_VALUES, len(column) // 2) and len(places) == len(column):
        _, first, codes = np.unique(places, return_index=True, return_inverse=True)
        return b"c" + np.argsort(np.argsort(first))[codes].tobytes()
    if column.dtype.kind == "f":
        return b"f" + (np.where(np.isnan(column), np.nan, column) + 0.0).tobytes()
    return "".join("-" if cell is None else f"{len(cell)} {cell}" for cell in column).encode()


def _label_facts(y: Table, targets: list[str], train: CsvTable, *, labels: bool) -> Facts:
    """What the labels in y_train are to the targets in train.csv.

    ``targets``: their number. ``label_words``: how many labels are texts, where those are numbers;
    ``labels_huge``: how many are larger than any number that may be submitted.
    ``labels_known``: the share of labels that occurs there, if all rows of train.csv are at hand; of numbers
    only where the task asks for ``labels``.
    """
    found: Facts = {"targets": len(targets)} if targets else {}
    words = [cell for column in y.texts for cell in column if cell is not None and not is_number(cell)]
    if targets and all(train.column(name).dtype.kind == "f" for name in targets):
        found["label_words"] = len(words)
        words = []
        found["labels_huge"] = int((np.abs(y.numbers) > MAX_ABS).sum())
    mine = labels_in(y) if labels else words
    if mine and (known := share_known(mine, labels_of(train, targets))) is not None:
        found["labels_known"] = known
    return found


def _labels_kept(y: Table, targets: list[str], train: CsvTable) -> bool:
    """Whether every column of y_train has two labels, and they are those of its target in train.csv."""
    places = places_of(y, targets)
    return bool(places) and all(
        len(given := labels_seen(train, [name])) == 2 and set(labels_in(y, [place])) == given
        for name, place in zip(targets, places, strict=True)
    )
