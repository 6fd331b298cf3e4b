"""What exported tables and predictions tell, as JSON values."""

from __future__ import annotations

import hashlib
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mappa_env.probes.association import MANY_VALUES, Column, missing
from mappa_env.probes.baseline import MAX_ROWS, Allowed
from mappa_env.probes.checks import MAX_NAME, Facts, checks_of
from mappa_env.probes.csv_table import CsvTable, targets_in
from mappa_env.probes.labels import (
    answers_in,
    as_cell,
    labels_in,
    labels_of,
    share_known,
)
from mappa_env.probes.one_hot import OneHot, one_hot_of
from mappa_env.probes.opening import MODEL, TABLES, Asked, Beside, File, Opened
from mappa_env.probes.plain import Table
from mappa_env.probes.predictions import Said, is_constant, shares_of
from mappa_env.probes.scale import Scales, scale_of
from mappa_env.probes.trial import trial

MAX_PREDICTIONS = 2000
"""Rows of predictions that are listed."""
STABLE = -0.3
"""The least agreement of two answers of a model of which the worse counts. It may draw numbers, and then
agree with itself by chance alone: that is weak, and shows in its skill. Less is a contradiction."""
_MAX_CELLS = 10_000
_MAX_NAMES = 40
_ORDERED, _LEAST_VALUES, _MOST_ORDERS = 64, 8, 8
"""Rows whose order is kept in a digest, distinct values in them, and columns."""
_WORKS = ("loads", "type", "has_predict", "error", "predicts")
_LARGEST = float(np.finfo(np.float32).max)


def facts_of(
    opened: Opened, train: CsvTable, test: CsvTable, *, labels: bool = False, ranked: bool = False
) -> Facts:
    """All facts. ``train`` and ``test`` are the task's own tables.

    ``labels``: it asks for labels; ``ranked``: for lists of them, separated by spaces.
    """
    found = {name.removesuffix(".pkl"): _file(opened.files[name]) for name in (*TABLES, MODEL)}
    tables = [_table(opened.files[name]) for name in TABLES]
    for name, table in zip(TABLES, tables, strict=True):
        if table is not None:
            found[name.removesuffix(".pkl")].update(table_facts(table))
    if opened.asked is not None:
        found["model"].update(_twice(_alone_or_beside(opened.asked)))
        if labels:  # nobody needs its probabilities
            found["model"].pop("one_class", None)
        if (beside := opened.asked.beside) is not None:
            through = _beside(beside) if opened.asked.table == TABLES[2] else {"file": beside.file[:MAX_NAME]}
            found["model"]["beside"] = {**through, "needed": opened.asked.said.predictions is None}
        if opened.asked.table == TABLES[0] and tables[0] is not None:
            said = [opened.asked.said, *([] if beside is None else [beside.said])]
            tried = trial(said, (tables[0], tables[1]), targets_in(train, test), train, opened.allowed)
            found["model"] |= {"trial": tried} if tried else {}
        if opened.asked.inside:
            found["model"]["inside"] = opened.asked.inside
        found["model"]["format"] = "pickle" if opened.asked.plain else opened.files[MODEL].packing
        predictions = opened.asked.said.predictions
        if labels and predictions is not None:
            answers = answers_in(predictions.values, ranked=ranked)
            found["model"] |= _answers(tables[1], answers, targets_in(train, test), train)
            found["model"]["answer_cols"] = predictions.values.shape[1]
            found["model"]["one_answer"] = is_constant(predictions.values)
    if opened.allowed is not None:
        found["allowed"] = _allowed(opened.allowed, tables, train)
        if opened.allowed.smooth is not None:
            found["allowed_smooth"] = _allowed(opened.allowed.smooth, tables, train)
            found["allowed_smooth"]["learns"] = round(opened.allowed.smooth.learns, 3)
    targets = targets_in(train, test)
    one_hot = None if tables[1] is None else one_hot_of(tables[1], targets, train)
    checks = checks_of(tables, train, test, one_hot, labels=labels)
    if one_hot is not None and not one_hot.coded:
        name_targets(one_hot, found)
    scale = None if labels or tables[1] is None else scale_of(tables[1], targets, train)
    if scale is not None:
        if scale.others:
            checks["labels_scaled"] = True
        _undo(scale, found, targets)
    return {**found, "checks": checks}


def _undo(scale: Scales, found: dict[str, Facts], targets: list[str]) -> None:
    """Say what predictions in the scale of y_train, and its order of columns, are in that of train.csv.

    A model may have undone it itself, so its own words stay; what its probabilities are of, they do not say.
    The forest knows only y_train. What ranks tell is good enough to find skill, and not to deny it: what the
    forest predicts is marked ``by_rank``.
    """
    model = found["model"]
    scales = {"undone": scale, **({"undone_falling": scale.falling()} if scale.by_rank else {})}
    for part in (model, model.get("again", {}), model.get("beside", {})):
        for name, each in scales.items():
            if (undone := each.undone(part.get("predictions", [None]))) is not None:
                part[name] = undone
        if scale.turned and _cells(part.get("probabilities")) == len(targets):
            part["classes"] = [name for _, name in sorted(zip(scale.places, targets, strict=True))]
    for name in ("allowed", "allowed_smooth"):
        if (undone := scale.undone(found.get(name, {}).get("predictions", [None]))) is not None:
            found[name]["predictions"] = undone
        if scale.by_rank and name in found:
            found[name]["by_rank"] = True


def _cells(rows: list[Any] | None) -> int:
    """The length of the first row."""
    return len(rows[0]) if rows and isinstance(rows[0], list) else 1


def name_targets(one_hot: OneHot, found: Facts) -> None:
    """Name the classes of probabilities as the targets that they stand for."""
    model = found["model"]
    parts = (model, model.get("again", {}), model.get("beside", {}))
    for part in (*parts, found.get("allowed", {}), found.get("allowed_smooth", {})):
        classes = [as_cell(name) for name in part.get("classes", ())]
        if classes and set(classes) <= one_hot.names.keys():
            part["classes"] = [one_hot.names[name] for name in classes]


def _file(file: File) -> Facts:
    record = file.record
    found: Facts = {"exists": file.exists, "loads": record is not None and not record.error}
    if file.unknown:
        return {**found, "unknown": True, "error": file.unknown}
    if error := file.error or (record.error if record is not None else ""):
        return {**found, "error": error}
    if record is None:
        return found
    form = file.packing if file.form == "pickle" and not record.plain else file.form
    found |= {"plain": record.plain, "format": form, "stable": record.stable}
    if record.unfit:
        found["unfit"] = record.unfit
    return {**found, "type": record.kind[:MAX_NAME], "table": record.table is not None}


def _table(file: File) -> Table | None:
    return None if file.record is None or file.unknown else file.record.table


def table_facts(table: Table) -> Facts:
    """Size, column names, kinds of columns, and missing or infinite values of a table.

    ``distinct``: how many values the first column has that has not only one.
    """
    pairs = list(zip(table.names, table.numeric, strict=True))
    counts = (_distinct(table.column(at)) for at in range(len(pairs[:_MAX_NAMES])))
    return {
        "rows": table.rows,
        "cols": table.cols,
        "columns": [name[:MAX_NAME] for name in table.names[:_MAX_NAMES]],
        "mixed_names": table.mixed,
        "numeric": all(table.numeric),
        "strings": [name[:MAX_NAME] for name, numeric in pairs if not numeric][:8],
        "nan": table.nan,
        "inf": table.inf,
        "too_large": int((np.abs(table.numbers) > _LARGEST).sum()) - int(np.isinf(table.numbers).sum()),
        "distinct": next((count for count in counts if count != 1), min(1, len(pairs))),
        "order": _order(table),
    }


def _distinct(column: Column) -> int:
    return len(np.unique(column[~missing(column)])) + bool(missing(column).any())


def _alone_or_beside(asked: Asked) -> Asked:
    """What counts as the model's answers: its own, unless it gives them only with a file beside it."""
    if asked.beside is None or asked.said.predictions is not None:
        return asked
    return asked._replace(said=asked.beside.said, again=asked.beside.again)


def _beside(beside: Beside) -> Facts:
    """The answers with a file that its writer handed on: for who uses both."""
    agreement = beside.said.agreement(beside.again)
    if agreement < STABLE:
        return {"file": beside.file[:MAX_NAME]}
    seen = _model(beside.said)
    names = ("predictions", "probabilities", "classes", "constant")
    return {"file": beside.file[:MAX_NAME], **{name: seen[name] for name in names if name in seen}}


def _order(table: Table) -> dict[str, str]:
    """Digests of the order of the first values of some columns, which another scale does not change."""
    found: dict[str, str] = {}
    for name, column in zip(table.names, table.columns(_ORDERED), strict=True):
        if len(found) < _MOST_ORDERS and column.dtype.kind == "f":
            values, places = np.unique(column, return_inverse=True)
            if len(values) >= _LEAST_VALUES:
                found[name[:MAX_NAME]] = hashlib.sha256(places.astype("<i4").tobytes()).hexdigest()[:12]
    return found


def _twice(asked: Asked) -> Facts:
    """What the model offers, and how much of it came again."""
    agreement = asked.said.agreement(asked.again)
    found = _model(asked.said)
    if asked.table != TABLES[2]:  # the rows that it was fitted to show no more than whether it works
        found = {name: found[name] for name in _WORKS if name in found} | {"tried_on": asked.table}
        if found.get("predicts"):
            del found["predicts"]
    found |= {"plain": asked.plain, "stable": agreement >= STABLE, "agreement": round(agreement, 3)}
    if asked.table != TABLES[2]:
        return found
    if agreement < 1 and found.get("predicts") and asked.again.predictions is not None:
        again = _model(asked.again)
        names = ("predictions", "probabilities", "classes")
        found["again"] = {name: again[name] for name in names if name in again}
        found["constant"] |= again["constant"]
    return found


def _model(said: Said) -> Facts:
    """What the model offers and predicts."""
    if not said.loads:
        return {"loads": False, "error": said.error}
    found: Facts = {"loads": True, "type": said.kind[:MAX_NAME], "has_predict": said.has_predict}
    if said.error:
        found["error"] = said.error
    if not said.asked:
        return found
    if said.predictions is None:
        return {**found, "predicts": False, "error": said.error or "its predictions are no table"}
    values = said.predictions.values
    found |= {
        "predicts": True,
        "n_predictions": said.predictions.rows,
        "finite": bool(np.isfinite(values).all()) if values.dtype.kind == "f" else True,
        "constant": is_constant(values),
        "predictions": listed(values),
    }
    if said.probabilities is None or said.probabilities.values.dtype.kind not in "fib":
        return found
    shares = shares_of(said.probabilities)
    found |= {"probabilities": listed(shares), "constant": is_constant(said.probabilities.values)}
    if said.probabilities.values.shape[1] == 1 and found["constant"]:
        found["one_class"] = True
    if shares.shape[1] > 1:
        found["classes"] = list(said.probabilities.names[:_MAX_NAMES])
    return found


def _allowed(allowed: Allowed, tables: list[Table | None], train: CsvTable) -> Facts:
    """What a model could predict from these tables, in the form of a model's predictions.

    ``partial``: the facts list only the first rows, or the host's models saw fewer rows than train.csv has:
    the first of many, or others than the rest, as their labels tell. Rows in excess of train.csv, and columns
    of which only some rows could be exported, hide nothing. ``sampled``: they saw ``MAX_ROWS`` of all rows,
    drawn at random.
    """
    (predictions, shares, classes, *_), (x, y, test) = allowed, tables
    values = predictions.reshape(len(predictions), -1)
    facts: Facts = {"n_predictions": test.rows if test else 0, "predictions": listed(values)}
    if shares is not None:
        two = len(classes) == 2
        facts["probabilities"] = listed(shares[:, 1:] if two else shares)
        facts |= {} if two else {"classes": list(classes[:_MAX_NAMES])}
    least = min(len(facts[name]) for name in ("predictions", "probabilities") if name in facts)
    kept = 0 if x is None or y is None else min(x.kept, y.kept)
    given = 0 if x is None else min(x.rows, x.rows if train.rows is None else train.rows)
    unlike = kept < given and (given > MAX_ROWS or y is None or not _alike(y.column(0), kept))
    if not kept or unlike or least < facts["n_predictions"]:
        facts["partial"] = True
    elif kept > MAX_ROWS:
        facts["sampled"] = True
    return facts


def _alike(labels: Column, first: int) -> bool:
    """Whether the ``first`` labels are like all."""
    some = labels[:first]
    if labels.dtype.kind != "f" or len(np.unique(labels)) <= MANY_VALUES:
        return set(some.tolist()) == set(labels.tolist())
    with np.errstate(all="ignore"):
        return bool(abs(np.median(some) - np.median(labels)) <= np.std(labels) / 4)


def _answers(y: Table | None, answers: list[str], targets: list[str], train: CsvTable) -> Facts:
    """The shares of a model's answers that are labels of y_train, and of train.csv."""
    shares = {
        "answers_known": None if y is None else share_known(answers, labels_in(y)),
        "answers_named": share_known(answers, labels_of(train, targets)),
    }
    return {name: share for name, share in shares.items() if share is not None}


def listed(values: NDArray[Any]) -> list[Any]:
    """The first rows as JSON values; rows of one cell as that cell."""
    most = min(MAX_PREDICTIONS, _MAX_CELLS // max(1, values.shape[1]))
    rows = [[_cell(cell) for cell in row] for row in values[:most].tolist()]
    return [row[0] if len(row) == 1 else row for row in rows]


def _cell(cell: Any) -> Any:
    if isinstance(cell, float):
        return float(f"{cell:.6g}") if math.isfinite(cell) else str(cell)
    return cell
