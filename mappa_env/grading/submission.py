"""Grades submissions, which may be any bytes, against hidden answers, aligned by id."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mappa_env.errors import DataError
from mappa_env.grading.codes import labels_said
from mappa_env.grading.formulas import weighted_f1
from mappa_env.grading.metrics import evaluate, metric_named, skill
from mappa_env.grading.predictions import (
    FILE,
    RefusedError,
    answers_of,
    largest,
    order_of,
    position_of,
    read,
    targets_of,
    values_of,
)
from mappa_env.grading.tabular import score_of
from mappa_env.types import ActionRecord, Outcome, Task

if TYPE_CHECKING:
    from mappa_env.workspace.workspace import Workspace

STATUSES = ("ok", "missing", "unreadable", "columns", "rows", "ids", "values", "range")
FAILED = {"classification": {"accuracy_fair": 0.5, "f1_fair": 0.0}, "regression": {"rmse_fair": 50.0}}
"""The values of a run without a valid submission in the Fair metrics."""
MAX_RMSE_FAIR = 100.0


class SubmissionGrader:
    """Grades ``submission.csv``, which an agent of this episode must have written.

    ``success``: the submission is valid. ``score``: its skill within 0..1 (0 for the same value in every
    row). Metrics: the task's own, ``skill``, ``beats_constant``, ``constant``, ``valid``; ``accuracy`` and
    ``f1``, or ``rmse_pct_of_range``; and their ``*_fair`` forms, which failed runs also have.
    """

    def grade(self, task: Task, actions: Sequence[ActionRecord], workspace: Workspace | None) -> Outcome:
        """Grade the submission in ``workspace``; see the class.

        ``unavailable``: the task's own files changed or became unreadable since the episode began.
        """
        try:
            return self._grade(task, workspace)
        except DataError as error:
            return Outcome(0.0, False, "unavailable", f"the task cannot be graded: {error}")

    def _grade(self, task: Task, workspace: Workspace | None) -> Outcome:
        entry = workspace.present.get(FILE) if workspace is not None else None
        if workspace is None or entry is None or not entry.agent:
            return _failed(task, "missing", f"no agent wrote {FILE}")
        try:
            data = workspace.read(FILE, largest(task))
        except OSError as error:  # a WorkspaceError is one
            return _failed(task, "unreadable", str(error))
        return grade_submission(task, data)


class Scored(NamedTuple):
    """A submission's ``score``, None if it is refused, with ``status`` and ``reason``."""

    score: float | None
    status: str
    reason: str


def score_submission(task: Task, data: bytes) -> Scored:
    """The score alone of the content of a submission file. Never raises for any bytes.

    Unlike ``grade_submission`` it needs neither the constant nor the reference model.
    """
    answers = answers_of(task)
    try:
        pred = read(task, data, answers)
    except RefusedError as refused:
        return Scored(None, refused.status, str(refused))
    return Scored(score_of(task.metric, answers.values, pred), "ok", "")


def best_score(task: Task) -> float:
    """The score of the answers themselves, which may be names where predictions are numbers."""
    values = answers_of(task).values
    return score_of(task.metric, values, values)


def grade_submission(task: Task, data: bytes) -> Outcome:
    """Grade the content of a submission file. Never raises for any bytes."""
    answers = answers_of(task)
    try:
        pred = read(task, data, answers)
    except RefusedError as refused:
        return _failed(task, refused.status, str(refused))
    truth = answers.values
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
    graded = [_grade_head(task, each, total) for each in _meant(task, facts, found, total)]
    known = [score for score in graded if score is not None]
    if not known:
        return None
    score = (max if metric_named(task.metric).higher_is_better else min)(known)
    return score, _skill(task, score, reference)


def _meant(task: Task, facts: Mapping[str, Any], found: list[Any], total: int) -> list[Sequence[Any]]:
    """The predictions in every form that they can be meant in: of labels as labels, else as they are."""
    if metric_named(task.metric).takes not in ("label", "ranking"):
        return [found]
    truth = _head(task, len(found), total)
    if truth is None or truth.shape[1] != 1:
        return [found]
    return [*labels_said(task, facts, truth[:, 0].tolist())]


def separation(task: Task, facts: Mapping[str, Any], *, signed: bool = False) -> float | None:
    """How well the probabilities of the model in a probe's facts tell two classes apart: 0 (not) to 1.

    The area under the ROC curve, in either direction: names and order of the classes do not matter, nor does
    where a threshold lies. ``signed``: the classes are known by their names, and probabilities of the first
    by name give down to -1. Of several targets, the one that is told apart best. None without one probability
    per row and target, or if a target has not two classes. Numbers count as probabilities of several targets.
    """
    model = facts.get("model")
    if not isinstance(model, Mapping):
        return None
    found, total = _by_target(task, model), model.get("n_predictions")
    if not isinstance(found, list) and len(targets_of(task)) > 1:
        found = model.get("predictions")
    if not isinstance(found, list) or not isinstance(total, int):
        return None
    truth = _head(task, len(found), total)
    if truth is None or any(len(np.unique(column)) != 2 for column in truth.T):
        return None
    try:
        shares = np.array(found, dtype=float).reshape(len(found), -1)
    except (TypeError, ValueError):
        return None
    if shares.shape != truth.shape or not np.isfinite(shares).all():
        return None
    return max(_area(column, each, signed=signed) for column, each in zip(truth.T, shares.T, strict=True))


def _area(truth: NDArray[Any], shares: NDArray[Any], *, signed: bool) -> float:
    classes = np.unique(truth).tolist()
    second = max(classes, key=lambda label: f"{label:.15g}" if isinstance(label, float) else str(label))
    area = 2 * evaluate("roc_auc", (truth == second).astype(float), shares) - 1
    return area if signed else abs(area)


def ranking(task: Task, facts: Mapping[str, Any]) -> float | None:
    """How well the predictions of the model in a probe's facts rank the rows: 0 (not) to 1.

    The rank correlation, in either direction, which no monotone function of them changes; of several targets,
    the largest. None without one number per row and target, or if the task asks for something else.
    """
    model = facts.get("model")
    found, total = (model.get(key) for key in ("predictions", "n_predictions")) if model else (None, None)
    if not isinstance(found, list) or not isinstance(total, int):
        return None
    truth = _head(task, len(found), total)
    if truth is None:
        return None
    try:
        said, wanted = np.array(found, dtype=float).reshape(len(found), -1), truth.astype(float)
    except (TypeError, ValueError):
        return None
    if said.shape != wanted.shape or not np.isfinite(said).all():
        return None
    return max(_correlation(*columns) for columns in zip(said.T, wanted.T, strict=True))


def _correlation(said: NDArray[Any], wanted: NDArray[Any]) -> float:
    from scipy.stats import rankdata

    if (said == said[0]).all() or (wanted == wanted[0]).all():
        return 0.0
    return abs(float(np.corrcoef(rankdata(said), rankdata(wanted))[0, 1]))


def _by_target(task: Task, model: Mapping[str, Any]) -> Any:
    """Probabilities in the order of the targets, if the classes are named like them; else as they are."""
    found, classes, targets = model.get("probabilities"), model.get("classes"), targets_of(task)
    if not isinstance(found, list) or not isinstance(classes, list) or sorted(classes) != sorted(targets):
        return found
    order = [classes.index(name) for name in targets]
    return [[row[at] for at in order] for row in found if isinstance(row, list) and len(row) == len(order)]


def _grade_head(task: Task, predictions: Sequence[Any], total: int) -> float | None:
    """The score of predictions for the first rows of test.csv, out of ``total`` that the model made."""
    truth = _head(task, len(predictions), total)
    rows = [[str(c) for c in p] if isinstance(p, (list, tuple)) else [str(p)] for p in predictions]
    if truth is None or any(len(row) != truth.shape[1] for row in rows):
        return None
    try:
        return score_of(task.metric, truth, values_of(task, rows))
    except RefusedError:
        return None


def _head(task: Task, rows: int, total: int) -> NDArray[Any] | None:
    """The true values of the first ``rows`` of test.csv; None if it does not have ``total`` known ones."""
    answers = answers_of(task)
    order, position = order_of(task, answers), position_of(answers.ids)
    if not 0 < rows <= total == len(order) or set(order) != set(position):
        return None
    return answers.values[[position[key] for key in order[:rows]]]


def _skill(task: Task, score: float, reference: float | None = None) -> float:
    best = float(task.truth["reference"]) if reference is None else reference
    return skill(score, float(task.truth["constant"]), best, task.metric)


def _failed(task: Task, status: str, reason: str) -> Outcome:
    return Outcome(0.0, False, status, reason, {"valid": 0.0, **FAILED.get(task.family, {})})


# -- metrics for comparison -------------------------------------------------------------------------------


def _readable(task: Task, truth: NDArray[Any], pred: NDArray[Any]) -> dict[str, float]:
    if task.family not in FAILED:
        return {}
    if task.family == "regression":
        spread = np.ptp(truth, axis=0)
        rmse = np.sqrt(np.mean((truth - pred) ** 2, axis=0))
        share = float(np.mean(100.0 * rmse / np.where(spread > 0, spread, 1.0)))
        return {"rmse_pct_of_range": share, "rmse_fair": min(share, MAX_RMSE_FAIR)}
    takes = metric_named(task.metric).takes
    if takes == "ranking":
        pred = np.array([[cell.split()[0] for cell in row] for row in pred], dtype=object)
    elif takes != "label":
        cut = _cut(truth, pred)
        truth, pred = _as_labels(truth, cut[0]), _as_labels(pred, cut[1])
    columns = [(truth[:, j], pred[:, j]) for j in range(truth.shape[1])]
    accuracy = float(np.mean([evaluate("accuracy", t, p) for t, p in columns]))
    f1 = float(np.mean([_f1(t, p) for t, p in columns]))
    return {"accuracy": accuracy, "f1": f1, "accuracy_fair": accuracy, "f1_fair": f1}


def _cut(truth: NDArray[Any], pred: NDArray[Any]) -> tuple[float, float]:
    """From where on values of the truth, and predictions, mean the positive class: the larger of two numbers.

    Predictions are probabilities, or else numbers like the truth's.
    """
    middle = float(truth.min() + truth.max()) / 2 if truth.shape[1] == 1 else 0.5
    return middle, 0.5 if pred.min() >= 0 and pred.max() <= 1 else middle


def _as_labels(values: NDArray[Any], cut: float) -> NDArray[Any]:
    if values.shape[1] > 1:  # one column of probabilities per class, or per binary target
        one_hot = values.argmax(axis=1)[:, None] == np.arange(values.shape[1])[None, :]
        values = one_hot if np.allclose(values.sum(axis=1), 1.0) else values
    return np.where(values >= cut, "1", "0").astype(object)


def _f1(truth: NDArray[Any], pred: NDArray[Any]) -> float:
    """Binary F1 of the positive class, else F1 weighted by class."""
    return evaluate("f1", truth, pred) if len(set(truth)) <= 2 else weighted_f1(truth, pred)
