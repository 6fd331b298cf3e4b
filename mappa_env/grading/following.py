"""Whether a submission is made from what the team's model predicts, whatever its scale or its labels are."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mappa_env.errors import DataError
from mappa_env.grading.codes import best_meaning
from mappa_env.grading.metrics import metric_named
from mappa_env.grading.predictions import (
    FILE,
    RefusedError,
    answers_of,
    cells_of,
    largest,
    number_in,
    order_of,
    position_of,
)
from mappa_env.grading.spelling import canonical
from mappa_env.types import Task

if TYPE_CHECKING:
    from mappa_env.workspace.workspace import Workspace

_MOST_LABELS = 100
"""With more labels or codes it is not told."""
_ROUNDED = 1e-9
"""How much of their size numbers may differ by how sums were rounded."""
_SURE = 0.9
"""Less than this of a model that answers otherwise every time tells nothing."""


def followed(task: Task, workspace: Workspace, facts: Mapping[str, Any]) -> float | None:
    """``follows`` for the submission in ``workspace``; None also if no agent wrote one."""
    entry, model = workspace.present.get(FILE), facts.get("model")
    if entry is None or not entry.agent or not isinstance(model, Mapping) or "answers_csv" not in task.truth:
        return None
    if "predictions" not in model:
        return None
    try:
        return follows(task, workspace.read(FILE, largest(task)), facts)
    except (OSError, DataError):  # the grader says what is wrong with it
        return None


def follows(task: Task, data: bytes, facts: Mapping[str, Any]) -> float | None:
    """How far a submission goes together with the answers of the model in a probe's facts: 0 (not) to 1.

    Numbers by their ranks, in either direction if that of their scale is unknown. Labels by the share of
    equal rows beyond chance, whatever label a code stands for, or by how well probabilities, or other
    numbers, part them. None: it cannot be told. The hidden values have no part.
    """
    model = facts["model"]
    answers = answers_of(task)
    try:
        cells = cells_of(task, data, answers)
    except RefusedError:
        return None
    order, position = order_of(task, answers), position_of(answers.ids)
    if model.get("n_predictions") != len(order) or set(order) != set(position):
        return None
    rows = [cells[position[key]] for key in order]
    again = model.get("again")
    both = [model, {**model, **again}] if isinstance(again, Mapping) else [model]
    takes = metric_named(task.metric).takes
    if takes == "ranking":  # the likeliest label counts
        rows, both = _firsts(rows), [{**each, "predictions": _firsts(each["predictions"])} for each in both]
    if "undone" in model and "undone_falling" not in model:
        both += [{**each, "predictions": each["undone"]} for each in both if "undone" in each]
    follow = _labels if takes in ("label", "ranking") else _numbers
    if takes in ("number", "nonnegative") and "undone_falling" not in model:
        follow = _rising
    best = max((value for each in both if (value := follow(rows, each)) is not None), default=None)
    return None if best is None or (best < _SURE and again) else round(best, 3)


def _rising(rows: Sequence[Sequence[str]], model: Mapping[str, Any]) -> float | None:
    """``_numbers`` where the direction is known."""
    return _numbers(rows, model, either=False)


def _numbers(rows: Sequence[Sequence[str]], model: Mapping[str, Any], *, either: bool = True) -> float | None:
    """Of each target the column of the model that goes together with it best; of these the least.

    ``either``: its ranks may be those of the other direction.
    """
    columns = list(_columns(model))
    try:
        given = np.array([[number_in(cell) for cell in row] for row in rows])
    except ValueError:
        return None
    if not columns or not np.isfinite(given).all():
        return None
    varied = [each for each in columns if np.ptp(each) > _ROUNDED * np.abs(each).max()]
    found = []
    for target in given.T:
        if np.ptp(target) <= _ROUNDED * np.abs(target).max():
            return None
        ranks = (_ranked(target[: len(each)], each) for each in varied)
        found.append(max((abs(rank) if either else max(rank, 0.0) for rank in ranks), default=0.0))
    return min(found)


def _labels(rows: Sequence[Sequence[str]], model: Mapping[str, Any]) -> float | None:
    if len(rows[0]) != 1:
        return None
    given = [canonical(row[0]) for row in rows]
    if not 1 < len(set(given)) <= _MOST_LABELS:
        return None
    found = [_parted(each, given[: len(each)]) for each in _columns(model)]
    for codes in _codes(model):
        if len(set(codes)) <= _MOST_LABELS:
            found.append(_agreed(codes, given[: len(codes)]))
    return max((each for each in found if each is not None), default=None)


def _firsts(cells: Sequence[Any]) -> list[Any]:
    """Of each list of labels the first, also in rows of such lists."""
    return [_firsts(cell) if isinstance(cell, list) else (str(cell).split() or [""])[0] for cell in cells]


def _columns(model: Mapping[str, Any]) -> Iterator[NDArray[np.float64]]:
    """The columns of numbers among its answers; two names are numbers, too."""
    for name in ("predictions", "probabilities"):
        said = model.get(name)
        if not isinstance(said, list) or not said:
            continue
        if len(kinds := sorted({str(each) for each in said})) == 2:
            said = [kinds.index(str(each)) for each in said]
        try:
            values = np.array(said, dtype=float).reshape(len(said), -1)
        except (TypeError, ValueError):
            continue
        yield from (column for column in values.T if np.isfinite(column).all())


def _codes(model: Mapping[str, Any]) -> Iterator[list[str]]:
    """What it says of each row in a word, which of several columns is the number of the largest."""
    for name in ("predictions", "probabilities"):
        said = model.get(name)
        if not isinstance(said, list) or not said:
            continue
        if not isinstance(said[0], list):
            yield [canonical(str(each)) for each in said]
        elif len({len(row) if isinstance(row, list) else 0 for row in said}) == 1:
            yield [str(max(range(len(row)), key=row.__getitem__)) for row in said]


def _ranked(one: NDArray[Any], other: NDArray[Any]) -> float:
    from scipy.stats import rankdata

    if (one == one[0]).all():
        return 0.0
    return float(np.corrcoef(rankdata(one), rankdata(other))[0, 1])


def _agreed(codes: Sequence[str], given: Sequence[str]) -> float | None:
    """The share of equal rows, less what chance gives; None if chance gives all."""
    meaning = best_meaning(codes, given)
    meant = [meaning.get(code, "") for code in codes]
    ours, theirs = Counter(meant), Counter(given)
    chance = sum(count * theirs[label] for label, count in ours.items() if label) / len(given) ** 2
    equal = sum(a == b for a, b in zip(meant, given, strict=True)) / len(given)
    return None if chance >= 1 else max(0.0, (equal - chance) / (1 - chance))


def _parted(column: NDArray[np.float64], given: Sequence[str]) -> float | None:
    """How well numbers part the labels, whose order their means are: 1 if each has a range of its own."""
    from scipy.stats import rankdata

    labels = np.array(given)
    groups = sorted((column[labels == each] for each in set(given)), key=np.mean)
    if len(groups) < 2:
        return None
    total = weight = 0.0
    for one, other in itertools.pairwise(groups):
        above = rankdata(np.concatenate([one, other]))[len(one) :].sum() - len(other) * (len(other) + 1) / 2
        total += 2 * above - len(one) * len(other)
        weight += len(one) * len(other)
    return max(0.0, float(total / weight))
