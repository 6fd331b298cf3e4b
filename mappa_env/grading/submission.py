"""Grades submissions, which may be any bytes, against hidden answers, aligned by id."""

from __future__ import annotations

import csv
import functools
import io
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np
from numpy.typing import NDArray

from mappa_env.grading.metrics import canonical, evaluate, metric_named, skill, weighted_f1
from mappa_env.grading.tabular import columns_of, score_of
from mappa_env.types import ActionRecord, Outcome, Task

if TYPE_CHECKING:
    from mappa_env.workspace.workspace import Workspace

FILE = "submission.csv"
STATUSES = ("ok", "missing", "unreadable", "columns", "rows", "ids", "values", "range")
FAILED = {"classification": {"accuracy_fair": 0.5, "f1_fair": 0.0}, "regression": {"rmse_fair": 50.0}}
"""The values of a run without a valid submission in the Fair metrics."""
MAX_RMSE_FAIR = 100.0

_SPARE_BYTES = 2**20
_MAX_SHOWN = 60


class _RefusedError(Exception):
    def __init__(self, status: str, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class SubmissionGrader:
    """Grades ``submission.csv``, which an agent of this episode must have written.

    ``success``: the submission is valid. ``score``: its skill within 0..1 (0 for the same value in every
    row). Metrics: the task's own, ``skill``, ``beats_constant``, ``constant``, ``valid``; ``accuracy`` and
    ``f1``, or ``rmse_pct_of_range``; and their ``*_fair`` forms, which failed runs also have.
    """

    def grade(self, task: Task, actions: Sequence[ActionRecord], workspace: Workspace | None) -> Outcome:
        """Grade the submission in ``workspace``; see the class."""
        entry = workspace.present.get(FILE) if workspace is not None else None
        if workspace is None or entry is None or not entry.agent:
            return _failed(task, "missing", f"no agent wrote {FILE}")
        try:
            data = workspace.read(FILE, _SPARE_BYTES + 8 * len(task.truth["answers_csv"]))
        except OSError as error:  # a WorkspaceError is one
            return _failed(task, "unreadable", str(error))
        return grade_submission(task, data)


def grade_submission(task: Task, data: bytes) -> Outcome:
    """Grade the content of a submission file. Never raises for any bytes."""
    ids, truth = _answers(task)
    try:
        pred = _read(task, data, ids)
    except _RefusedError as refused:
        return _failed(task, refused.status, str(refused))
    score = score_of(task.metric, truth, pred)
    gained = _skill(task, score)
    constant = len(pred) > 1 and all(len(set(pred[:, j])) == 1 for j in range(pred.shape[1]))
    base, best = float(task.truth["constant"]), float(task.truth["reference"])
    metrics = {
        task.metric: score,
        "valid": 1.0,
        "skill": gained,
        "beats_constant": float(gained > 0 and not constant),
        "constant": float(constant),
        **_readable(task, truth, pred),
    }
    reason = f"{task.metric} {score:.4g} (constant {base:.4g}, reference {best:.4g}): skill {gained:.2f}"
    if constant:
        reason += "; every row has the same value"
    return Outcome(0.0 if constant else min(gained, 1.0), True, "ok", reason, metrics)


def grade_model(
    task: Task, facts: Mapping[str, Any], reference: float | None = None
) -> tuple[float, float] | None:
    """(score, skill) of the model in a probe's facts; None if its predictions cannot be graded.

    If the probe lists only the first of many predictions, only their rows count. ``reference``: the score
    with skill 1; None: that of the task's reference model, which is fitted on first use.
    """
    model = facts.get("model")
    if not isinstance(model, Mapping):
        return None
    total = model.get("n_predictions")
    wanted = metric_named(task.metric).takes in ("score", "probability")
    found = (_by_target(task, model) if wanted else None) or model.get("predictions")
    if not isinstance(found, list) or not isinstance(total, int):
        return None
    meant = _as_labels_of(task, found)
    if (score := _grade_head(task, found if meant is None else meant, total)) is None:
        return None
    gained = _skill(task, score, reference)
    return (score, gained) if meant is None or gained > 0 else None  # else its classes have another order


def separation(task: Task, facts: Mapping[str, Any]) -> float | None:
    """How well the probabilities of the model in a probe's facts tell two classes apart: 0 (not) to 1.

    The area under the ROC curve, in either direction: names and order of the classes do not matter, nor does
    where a threshold lies. None without one probability per row, or if the task has not two classes.
    """
    model = facts.get("model")
    found, total = (model.get(key) for key in ("probabilities", "n_predictions")) if model else (None, None)
    if not isinstance(found, list) or not isinstance(total, int):
        return None
    truth = _head(task, len(found), total)
    if truth is None or truth.shape[1] != 1 or len(classes := np.unique(truth)) != 2:
        return None
    try:
        shares = np.array(found, dtype=float)
    except (TypeError, ValueError):
        return None
    if shares.shape != (len(truth),):
        return None
    area = evaluate("roc_auc", (truth[:, 0] == classes[1]).astype(float), shares)
    return abs(2 * area - 1)


def _by_target(task: Task, model: Mapping[str, Any]) -> Any:
    """Probabilities in the order of the targets, if the classes are named like them; else as they are."""
    found, classes, targets = model.get("probabilities"), model.get("classes"), _targets(task)
    if not isinstance(found, list) or not isinstance(classes, list) or sorted(classes) != sorted(targets):
        return found
    order = [classes.index(name) for name in targets]
    return [[row[at] for at in order] for row in found if isinstance(row, list) and len(row) == len(order)]


def _as_labels_of(task: Task, predictions: Sequence[Any]) -> list[str] | None:
    """The labels that numbers stand for, as boosters predict them; None if they are labels, or for none.

    Codes from 0, probabilities of the second of two labels, or one column per label; the labels sorted.
    """
    if metric_named(task.metric).takes != "label":
        return None
    labels = sorted({canonical(label) for label in task.truth["labels"]}, key=_order)
    try:
        cells = np.array(predictions, dtype=float).reshape(len(predictions), -1)
    except (TypeError, ValueError):
        return None
    if not cells.size or {canonical(str(cell)) for cell in cells.ravel()} <= set(labels):
        return None
    if cells.shape[1] == 1 and np.isin(cells, range(len(labels))).all():
        return [labels[int(code)] for code in cells[:, 0]]
    if not ((cells >= 0) & (cells <= 1)).all():
        return None
    if cells.shape[1] == 1 and len(labels) == 2:
        return [labels[int(share >= 0.5)] for share in cells[:, 0]]
    return [labels[at] for at in cells.argmax(axis=1)] if cells.shape[1] == len(labels) else None


def _order(label: str) -> tuple[float, str]:
    """Numbers by value, then text."""
    try:
        return float(label), label
    except ValueError:
        return math.inf, label


def _grade_head(task: Task, predictions: Sequence[Any], total: int) -> float | None:
    """The score of predictions for the first rows of test.csv, out of ``total`` that the model made."""
    truth = _head(task, len(predictions), total)
    rows = [[str(c) for c in p] if isinstance(p, (list, tuple)) else [str(p)] for p in predictions]
    if truth is None or any(len(row) != truth.shape[1] for row in rows):
        return None
    try:
        return score_of(task.metric, truth, _values(task, rows))
    except _RefusedError:
        return None


def _head(task: Task, rows: int, total: int) -> NDArray[Any] | None:
    """The true values of the first ``rows`` of test.csv; None if it does not have ``total`` known ones."""
    ids, truth = _answers(task)
    order = _test_ids(task) or ids
    if not 0 < rows <= total == len(order) or set(order) != set(ids):
        return None
    position = _position(ids)
    return truth[[position[key] for key in order[:rows]]]


def _skill(task: Task, score: float, reference: float | None = None) -> float:
    best = float(task.truth["reference"]) if reference is None else reference
    return skill(score, float(task.truth["constant"]), best, task.metric)


def _failed(task: Task, status: str, reason: str) -> Outcome:
    return Outcome(0.0, False, status, reason, {"valid": 0.0, **FAILED.get(task.family, {})})


# -- reading ----------------------------------------------------------------------------------------------


def _targets(task: Task) -> list[str]:
    target = task.truth["target"]
    return [target] if isinstance(target, str) else list(target)


def _answers(task: Task) -> tuple[list[str], NDArray[Any]]:
    """Ids and true values, (rows, targets), in the order of the answer file."""
    raw = task.truth["answers_csv"]
    rows = csv.reader(io.StringIO(raw.decode("utf-8-sig") if isinstance(raw, bytes) else raw))
    header = next(rows)
    columns = [header.index(name) for name in (task.truth["id"], *_targets(task))]
    cells = [[row[at] for at in columns] for row in rows if row]
    return [row[0].strip() for row in cells], columns_of(task.metric, [row[1:] for row in cells])


def _test_ids(task: Task) -> list[str]:
    """The ids of the host's own test.csv; empty if the table has no such column."""
    content, name = task.files.get("test.csv", b""), task.truth["id"]
    if isinstance(content, Path):
        found = content.stat()
        return list(_ids_in(content, name, found.st_mtime_ns, found.st_size))
    return _column(io.StringIO(content.decode("utf-8-sig")), name)


@functools.lru_cache(maxsize=64)
def _ids_in(path: Path, name: str, changed: int, size: int) -> tuple[str, ...]:
    """The ids of a file as of ``changed``, read once."""
    with path.open(encoding="utf-8-sig", newline="") as stream:
        return tuple(_column(stream, name))


def _column(text: TextIO, name: str) -> list[str]:
    rows = csv.reader(text)
    header = next(rows, [])
    if name not in header:
        return []
    at = header.index(name)
    return [row[at].strip() for row in rows if row]


def _read(task: Task, data: bytes, ids: Sequence[str]) -> NDArray[Any]:
    """Valid predictions in the order of ``ids``. Raises _RefusedError."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _RefusedError("unreadable", f"{FILE} is not UTF-8 text: {error.reason}") from None
    rows = _rows(text)
    header = [name.strip() for name in next(rows, [])]
    wanted = [task.truth["id"], *_targets(task)]
    if sorted(header) != sorted(wanted):
        raise _RefusedError("columns", f"columns must be {_shown(wanted)}, found {_shown(header)}")
    columns = [header.index(name) for name in wanted]
    cells: list[list[str]] = []
    for row in rows:
        if len(cells) == len(ids):
            raise _RefusedError("rows", f"more than the {len(ids)} rows asked for")
        if len(row) != len(header):
            raise _RefusedError("rows", f"row {len(cells) + 1} has {len(row)} cells, not {len(header)}")
        cells.append([row[at] for at in columns])
    if len(cells) < len(ids):
        raise _RefusedError("rows", f"{len(cells)} rows instead of {len(ids)}")
    found = [row[0].strip() for row in cells]
    if len(set(found)) < len(found):
        raise _RefusedError("ids", f"{len(found) - len(set(found))} ids are repeated")
    if strange := sorted(set(found) - set(ids)):
        raise _RefusedError("ids", f"{len(strange)} ids are not in test.csv, such as {_shown(strange[:1])}")
    position = _position(found)
    return _values(task, [row[1:] for row in cells])[[position[key] for key in ids]]


def _rows(text: str) -> Iterator[list[str]]:
    """The non-empty rows. The file size limits the length of a row; csv limits the length of a cell."""
    reader = csv.reader(io.StringIO(text, newline=""))
    while True:
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise _RefusedError("unreadable", f"{FILE} line {reader.line_num}: {error}") from None
        if row:
            yield row


def _values(task: Task, rows: Sequence[Sequence[str]]) -> NDArray[Any]:
    """Predictions as the metric compares them. Raises _RefusedError."""
    metric = metric_named(task.metric)
    if metric.takes == "label":
        labels = {canonical(label) for label in task.truth["labels"]}
        wrong = {cell for row in rows for cell in row if canonical(cell) not in labels}
        if wrong:
            known = _shown(sorted(labels)[:6])
            raise _RefusedError("values", f"{_shown(sorted(wrong)[:1])} is not one of the labels {known}")
        return columns_of(task.metric, rows)
    try:
        pred = np.array([[_number(cell) for cell in row] for row in rows])
    except ValueError:
        raise _RefusedError("values", f"{task.metric} needs a number in every row") from None
    problem = metric.illegal(pred)
    if problem:
        raise _RefusedError("range" if np.all(np.isfinite(pred)) else "values", problem)
    return pred


def _number(cell: str) -> float:
    """``True`` and ``False`` count as 1 and 0. Raises ValueError."""
    flag = {"true": 1.0, "false": 0.0}.get(cell.strip().lower())
    return float(cell) if flag is None else flag


def _position(keys: Iterable[str]) -> dict[str, int]:
    return {key: i for i, key in enumerate(keys)}


def _shown(names: Sequence[str]) -> str:
    text = ", ".join(repr(name) for name in names)
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}..."


# -- metrics for comparison -------------------------------------------------------------------------------


def _readable(task: Task, truth: NDArray[Any], pred: NDArray[Any]) -> dict[str, float]:
    if task.family == "regression":
        spread = np.ptp(truth, axis=0)
        rmse = np.sqrt(np.mean((truth - pred) ** 2, axis=0))
        share = float(np.mean(100.0 * rmse / np.where(spread > 0, spread, 1.0)))
        return {"rmse_pct_of_range": share, "rmse_fair": min(share, MAX_RMSE_FAIR)}
    if metric_named(task.metric).takes != "label":
        truth, pred = _as_labels(truth), _as_labels(pred)
    columns = [(truth[:, j], pred[:, j]) for j in range(truth.shape[1])]
    accuracy = float(np.mean([evaluate("accuracy", t, p) for t, p in columns]))
    f1 = float(np.mean([_f1(t, p) for t, p in columns]))
    return {"accuracy": accuracy, "f1": f1, "accuracy_fair": accuracy, "f1_fair": f1}


def _as_labels(values: NDArray[Any]) -> NDArray[Any]:
    if values.shape[1] > 1:  # one column of probabilities per class, or per binary target
        one_hot = values.argmax(axis=1)[:, None] == np.arange(values.shape[1])[None, :]
        values = one_hot if np.allclose(values.sum(axis=1), 1.0) else values
    return np.where(values >= 0.5, "1", "0").astype(object)


def _f1(truth: NDArray[Any], pred: NDArray[Any]) -> float:
    """Binary F1 of the positive class, else F1 weighted by class."""
    return evaluate("f1", truth, pred) if len(set(truth)) <= 2 else weighted_f1(truth, pred)
