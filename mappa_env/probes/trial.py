"""A model that no X_test can test, tried on the rows of X_train."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mappa_env.probes.association import Column, association, missing
from mappa_env.probes.baseline import CHANCE, Allowed, baseline
from mappa_env.probes.columns import MOST_TARGETS
from mappa_env.probes.csv_table import CsvTable
from mappa_env.probes.plain import Table
from mappa_env.probes.predictions import Array, Said, is_constant
from mappa_env.probes.rows import FEW_ROWS, rows_of

_MOST_LABELS = 12
"""Labels and columns of probabilities that are compared, each with each."""


def trial(
    said: list[Said],
    tables: tuple[Table, Table | None],
    targets: list[str],
    train: CsvTable,
    allowed: Allowed | None,
) -> dict[str, Any]:
    """What the answers of a model tell that may have been fitted to these rows.

    ``said``: its answers, and those with a file beside it. ``constant``: they are all the same. ``follows``:
    how far they go together with y_train or the targets of train.csv, less what chance gives, if it can be
    told. ``learns``: see ``Allowed``; only of a model that says nothing of these rows, and if it can be told.
    """
    x, y = tables
    answers = [each.probabilities or each.predictions for each in said if each.predictions is not None]
    given = [each for each in answers if each is not None and each.rows and each.rows == x.rows]
    if not given:
        return {}
    constant = all(is_constant(each.values) for each in given)
    follows = None if constant else _follows(given, x, y, targets, train)
    found: dict[str, Any] = {"constant": constant}
    if follows is not None:
        found["follows"] = round(follows, 3)
    if (constant or (follows is not None and follows <= 0)) and y is not None:
        host = allowed or baseline(x, y, x)
        if host is not None and host.smooth is not None:
            found["learns"] = round(host.smooth.learns, 3)
    return found


def _follows(
    answers: list[Array], x: Table, y: Table | None, targets: list[str], train: CsvTable
) -> float | None:
    found: list[float] = []
    for truths, mine in _truths(x, y, targets, train):
        for each in answers:
            known = mine < len(each.values)
            if known.sum() >= FEW_ROWS:
                values = each.values[mine[known]][:, :_MOST_LABELS]
                most = _most([column[known] for column in truths], values)
                found += [] if most is None else [most - CHANCE / np.sqrt(known.sum())]
        if found and max(found) > 0:
            break
    return max(found, default=None)


def _truths(
    x: Table, y: Table | None, targets: list[str], train: CsvTable
) -> Iterator[tuple[list[Column], NDArray[np.intp]]]:
    """What the answers may follow, and in which rows of X_train: y_train, then the targets of train.csv."""
    if y is not None and y.rows == x.rows:
        rows = np.arange(min(x.kept, y.kept))
        yield [y.column(at)[rows] for at in range(len(y.names[:MOST_TARGETS]))], rows
    rows_known = rows_of(x, targets, train)
    if rows_known.names:
        yield [train.column(name)[rows_known.given] for name in targets[:MOST_TARGETS]], rows_known.mine


def _most(truths: list[Column], answers: NDArray[Any]) -> float | None:
    """The most that a column of answers goes together with a truth, or with one label of it."""
    found: list[float | None] = []
    for truth in truths:
        labels = np.unique(truth[~missing(truth)])
        each = [truth]
        if 2 <= len(labels) <= _MOST_LABELS:
            each += [(truth == label).astype(float) for label in labels]
        for column in answers.T:
            values = column.astype(float) if column.dtype.kind in "fib" else column
            found += [association(one, values) for one in each]
    return max((value for value in found if value is not None), default=None)
