"""What the labels of y_train, and the answers of a model, are to the labels of train.csv."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mappa_env.errors import WorkspaceError
from mappa_env.grading.spelling import Labels
from mappa_env.probes.association import Column
from mappa_env.probes.csv_table import CsvTable
from mappa_env.probes.inside.exporter import MAX_TEXT, bounded
from mappa_env.probes.plain import Table
from mappa_env.workspace.workspace import Workspace

_LARGEST_CODING = 2**20
_MOST_NAMES = 50


def labels_of(train: CsvTable, targets: Sequence[str]) -> frozenset[str]:
    """The labels in train.csv; none if its rows are not all at hand."""
    if train.rows != len(train.head):
        return frozenset()
    cells = (cell for name in targets for cell in set(train.column(name).tolist()))
    return frozenset(_spelled(cell) for cell in cells if _is_there(cell))


def labels_in(y: Table) -> list[str]:
    """The labels of all cells of y_train."""
    return [_spelled(cell) for at in range(len(y.names)) for cell in y.column(at) if _is_there(cell)]


def share_known(labels: Iterable[str], known: Iterable[str]) -> float | None:
    """The share of ``labels`` that are ``known``, whose spelling decides; None without any."""
    spell, found = Labels(known), Counter(labels)
    right = sum(count for label, count in found.items() if spell(label) in spell.known)
    return round(right / found.total(), 3) if found and spell.known else None


def share_equal(some: Column, others: Column) -> float:
    """The share of rows with equal labels."""
    pairs = Counter(zip(some.tolist(), others.tolist(), strict=True))
    spell = Labels(_spelled(cell) for _, cell in pairs)
    equal = sum(count for (a, b), count in pairs.items() if spell(_spelled(a)) == spell(_spelled(b)))
    return round(equal / max(1, pairs.total()), 3)


def answers_in(predictions: NDArray[Any]) -> list[str]:
    """The labels that a model answers; none where it answers with numbers or several columns."""
    if predictions.shape[1] != 1:
        return []
    cells = predictions[:, 0]
    if cells.dtype.kind == "f" and not (np.isfinite(cells) & (cells == np.round(cells))).all():
        return []
    return [_spelled(cell) for cell in cells.tolist()]


def codings(workspace: Workspace, labels: Iterable[str]) -> list[str]:
    """The files of agents that may tell what codes stand for: they hold every name among ``labels``.

    Numbers leave no trace to look for in bytes, so that any file may hold them.
    """
    names = [label for label in sorted(labels) if not is_number(label)][:_MOST_NAMES]
    found = []
    for path, entry in workspace.present.items():
        if not entry.agent or entry.kind != "file" or entry.size > _LARGEST_CODING:
            continue
        try:
            content = workspace.read(path, _LARGEST_CODING)
        except WorkspaceError:
            continue
        if all(any(name.encode(kind) in content for kind in ("utf-8", "utf-32-le")) for name in names):
            found.append(path)
    return found


def is_number(cell: str) -> bool:
    """Whether a text is a number, which ``nan`` is not, or a truth value."""
    try:
        return bool(np.isfinite(float(cell)))
    except ValueError:
        return cell in ("True", "False")


def _is_there(cell: Any) -> bool:
    return cell is not None and cell == cell


def _spelled(cell: Any) -> str:
    """Numbers in nine digits, whatever type a program gave them."""
    return f"{cell:.9g}" if isinstance(cell, float) else bounded(str(cell).strip(), MAX_TEXT)
