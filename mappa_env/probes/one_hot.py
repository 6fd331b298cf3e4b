"""One column of labels in place of several targets of which exactly one is 1 in every row of train.csv."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mappa_env.probes.association import association, missing
from mappa_env.probes.columns import MOST_TARGETS
from mappa_env.probes.csv_table import CsvTable
from mappa_env.probes.labels import is_number, spelled
from mappa_env.probes.plain import Table

_CLEAR = 0.9
"""The association of labels with the targets from which on the rows tell what each label stands for."""


class OneHot(NamedTuple):
    """``names``: label of y_train -> the target that it stands for, as far as the host can tell.

    ``coded``: the labels are numbers in another order than the targets, which only a file could tell.
    ``follows``: the association of labels and targets, row by row; None: there are not as many rows.
    """

    names: dict[str, str]
    coded: bool = False
    follows: float | None = None


def one_hot_of(y: Table, targets: Sequence[str], train: CsvTable) -> OneHot | None:
    """How y_train has the targets as labels; None if it does not.

    Its column has as many labels as targets are 1 in some row: names of targets, or others for them.
    """
    places = _places(targets, train) if y.cols == len(y.names) == 1 else None
    if places is None:
        return None
    cells = y.column(0)
    labels = [spelled(value) for value in np.unique(cells[~missing(cells)]).tolist()]
    occur = np.unique(places)
    if len(labels) != len(occur):
        return None
    given = [targets[place] for place in occur]
    named = set(labels) == set(given)
    usual = dict(zip(labels, labels if named else given, strict=True))
    if y.rows != train.rows:
        return OneHot(usual)
    most = min(len(places), len(cells))
    mine, truth = np.array([spelled(cell) for cell in cells[:most].tolist()], dtype=object), places[:most]
    follows = association(mine, truth.astype(float))
    if follows is None or follows < _CLEAR:
        return OneHot(usual, follows=follows)
    names = {label: targets[int(np.bincount(truth[mine == label]).argmax())] for label in labels}
    if len(set(names.values())) < len(names):
        return OneHot(usual, follows=follows)
    if named and names != usual:
        return OneHot(usual, follows=0.0)
    coded = names != usual and all(map(is_number, labels))
    return OneHot(names, coded, follows)


def _places(targets: Sequence[str], train: CsvTable) -> NDArray[np.intp] | None:
    """The place of the target that is 1, of each row at hand; None if the targets are no one-hot."""
    if not 1 < len(targets) <= MOST_TARGETS or not train.head:
        return None
    columns = [train.column(name) for name in targets]
    if any(column.dtype.kind != "f" for column in columns):
        return None
    cells = np.column_stack(columns)
    if not np.isin(cells, (0, 1)).all() or not (cells.sum(axis=1) == 1).all():
        return None
    places: NDArray[np.intp] = cells.argmax(axis=1)
    return places
