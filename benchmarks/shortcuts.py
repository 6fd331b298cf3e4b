"""What tabular tasks pay for answers without their data: a score above chance would be a shortcut.

Each task is graded as in an episode. The baseline is the reference forest, whose score is 1 by definition.

- constant: the best constant according to the training rows;
- almost: the same with another value in one row, so that it does not count as a constant submission;
- prior: training targets drawn at random, so without any feature;
- shuffled: a forest that was fitted to the features with the training targets in another order;
- ids: a forest on the id and on the position of the row alone.

    python benchmarks/shortcuts.py [--tasks eval|train|added-eval|added-train|FOLDER] [--quick] [--json PATH]
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import math
import statistics
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mappa_env.data import load_tasks
from mappa_env.data.tabular.baseline import MAX_ROWS
from mappa_env.data.tabular.cells import filled, opened, targets_in
from mappa_env.grading.formulas import ranks
from mappa_env.grading.metrics import evaluate, higher_is_better, metric_named
from mappa_env.grading.predictions import targets_of
from mappa_env.grading.submission import grade_submission
from mappa_env.grading.tabular import columns_of
from mappa_env.types import Task

WAYS = ("constant", "almost", "prior", "shuffled", "ids")
QUICK = 12
FLAG = 0.3
"""A score from which on a shortcut is named: chance alone seldom reaches it on 50 rows."""
Column = NDArray[Any]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--tasks", default="eval", help="a split, or the folder of a release (default: eval)")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK} tasks, spread over the set")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the figures to a file")
    args = parser.parse_args()
    tasks = load_tasks("tabular", args.tasks)
    ids = list(tasks.ids)[:: max(1, len(tasks.ids) // QUICK) if args.quick else 1]
    print(f"{'task':40} {'metric':20}" + "".join(f"{way:>10}" for way in WAYS))
    found: dict[str, dict[str, float]] = {}
    for task_id in ids:
        task = tasks.get(task_id)
        found[task_id] = earned(task)
        cells = "".join(f"{found[task_id][way] + 0.0:10.2f}" for way in WAYS)
        print(f"{task_id:40.40} {task.metric:20}{cells}", flush=True)
    summary = {way: [row[way] for row in found.values()] for way in WAYS}
    for name, of in (("mean", statistics.fmean), ("largest", max)):
        print(f"{name:61}" + "".join(f"{of(values) + 0.0:10.2f}" for values in summary.values()))
    flagged = {way: sum(value >= FLAG for value in values) for way, values in summary.items()}
    print(
        f"{f'tasks with {FLAG} or more, of {len(found)}':61}" + "".join(f"{n:10}" for n in flagged.values())
    )
    if args.json:
        document = {"tasks": found, "mean": {way: statistics.fmean(v) for way, v in summary.items()}}
        args.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return 0


def earned(task: Task) -> dict[str, float]:
    """The score of each way."""
    rng = np.random.default_rng(0)
    train, test = (table(task, name) for name in ("train.csv", "test.csv"))
    names, ids = targets_of(task), task.truth["id"]
    train[names] = targets_in(task.files["train.csv"], names)
    train = train[filled(train[names])]
    train = train.sample(min(len(train), MAX_ROWS), random_state=0).sort_index()
    known = columns_of(task.metric, train[names].to_numpy().tolist())
    n = len(test)
    features = [name for name in test.columns if name in train.columns and name not in (ids, *names)]
    x, z = numeric(train, test, features)
    own, asked = (place(frame, ids) for frame in (train, test))
    constant = np.array([[best_constant(task.metric, column)] * n for column in known.T], dtype=known.dtype).T
    almost = constant.copy()
    almost[0] = known[int(rng.integers(len(known)))]
    mixed = rng.permutation(known)
    ways: dict[str, Column] = {
        "constant": constant,
        "almost": almost,
        "prior": known[rng.integers(len(known), size=n)],
        "shuffled": fitted(task, x, mixed, z),
        "ids": fitted(task, own, known, asked),
    }
    return {way: grade_submission(task, submission(task, test, pred)).score for way, pred in ways.items()}


def table(task: Task, name: str) -> Any:
    import pandas as pd

    content = task.files[name]
    return pd.read_csv(opened(content), dtype={task.truth["id"]: str})


def numeric(train: Any, test: Any, features: Sequence[str]) -> tuple[Any, Any]:
    """The features of both tables as finite numbers; a text becomes a number between 0 and 1, by its hash."""
    import pandas as pd

    def of(frame: Any, name: str) -> Column:
        column = frame[name]
        if not pd.api.types.is_numeric_dtype(column):
            column = pd.util.hash_array(column.fillna("").astype(str).to_numpy(dtype=object)) / 2.0**64
        values = np.asarray(column, dtype=float)
        return np.where(np.abs(values) < 1e30, values, 0.0)

    def matrix(frame: Any) -> Column:
        return np.column_stack([of(frame, name) for name in features] or [np.zeros(len(frame))])

    return matrix(train), matrix(test)


def place(frame: Any, ids: str) -> Column:
    """The id, by its number or its order, and the position of the row."""
    position = np.arange(len(frame), dtype=float)
    if ids not in frame.columns:
        return np.column_stack([position])
    texts = frame[ids].fillna("").astype(str)
    try:
        numbers = texts.astype(float).to_numpy()
    except ValueError:
        numbers = ranks(texts.to_numpy(dtype=object).astype(str))
    return np.column_stack([np.where(np.abs(numbers) < 1e30, numbers, 0.0), position])


def best_constant(metric: str, column: Column) -> Any:
    takes = metric_named(metric).takes
    if takes in ("label", "ranking", "text"):
        values, counts = np.unique(column.astype(str), return_counts=True)
        return str(values[counts.argmax()])
    pick = max if higher_is_better(metric) else min
    middles = (
        float(np.mean(column)),
        float(np.median(column)),
        math.expm1(float(np.mean(np.log1p(np.maximum(column, 0))))),
    )
    return pick(middles, key=lambda value: evaluate(metric, column, np.full(len(column), value)))


def fitted(task: Task, x: Column, y: Column, z: Column) -> Column:
    """A forest's predictions, (rows, targets)."""
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

    takes = metric_named(task.metric).takes
    if takes == "text":  # no forest writes texts
        return y[np.arange(len(z)) % len(y)]
    settings = {"n_estimators": 20, "random_state": 0, "n_jobs": 1}
    if takes in ("label", "ranking"):
        forests = [RandomForestClassifier(**settings).fit(x, column.astype(str)) for column in y.T]
        return np.column_stack([forest.predict(z).astype(object) for forest in forests])
    pred = RandomForestRegressor(**settings).fit(x, y if y.shape[1] > 1 else y[:, 0]).predict(z)
    pred = np.asarray(pred).reshape(len(z), -1)
    limit: Callable[[Column], Column] = {
        "probability": lambda p: np.clip(p, 0.02, 0.98),
        "nonnegative": lambda p: np.maximum(p, 0.0),
    }.get(takes, lambda p: p)
    return limit(pred)


def submission(task: Task, test: Any, pred: Column) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text)
    names, ids = targets_of(task), task.truth["id"]
    writer.writerow([ids, *names])
    keys = test[ids] if ids in test.columns else sample_ids(task, ids)
    writer.writerows([key, *row] for key, row in zip(keys, pred.tolist(), strict=True))
    return text.getvalue().encode()


def sample_ids(task: Task, ids: str) -> Any:
    return table(task, "sample_submission.csv")[ids]


if __name__ == "__main__":
    sys.exit(main())
