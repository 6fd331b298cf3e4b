"""Builds one tabular task from a source; the task's own seed determines rows, names and untidiness."""

from __future__ import annotations

import dataclasses
import functools
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mappa_env.data.tabular.baseline import Truth, constant_score, reference_score
from mappa_env.data.tabular.names import LABELS, LEVELS, Pool, describe, names_for
from mappa_env.data.tabular.seeding import seed_of
from mappa_env.data.tabular.sources import Draw, Floats, Rng, Source
from mappa_env.grading.metrics import metric_named
from mappa_env.grading.tabular import columns_of
from mappa_env.types import Task

MAX_TRAIN, MAX_TEST = 200, 80


def build(
    source: Source,
    split: str,
    index: int,
    pool: Pool,
    variant: int = 0,
    reference: Callable[[Truth], float] | None = None,
) -> Task:
    """Build the task ``<split>-<source>-<index>``; equal arguments give equal bytes.

    ``variant``: the same table with other names. ``reference``: computes the reference's score, if known.
    """
    rng = np.random.default_rng(seed_of(split, source.name, index))
    naming = np.random.default_rng([zlib.crc32(f"{split}/{source.name}".encode()), index, 1 + variant])
    metric = source.metrics[index % len(source.metrics)]
    draw = source.draw(split, metric, rng)
    names = names_for(pool, source.task_type)
    ids = str(naming.choice(names.ids))
    target = str(naming.choice(names.targets))

    n_test = min(MAX_TEST, int(rng.integers(50, 81)), len(draw.y) * 2 // 5)
    n_train = min(MAX_TRAIN, int(rng.integers(130, 201)), len(draw.y) - n_test)
    n = n_train + n_test
    cells, kinds, missing = _untidy(draw, n, rng)
    numbers, texts = (naming.permutation(words).tolist() for words in (names.numbers, names.texts))
    columns = [str(texts.pop() if kind == "cat" else numbers.pop()) for kind in kinds]
    answers = _answers(source, metric, draw.y[:n], rng)
    keys = [str(number) for number in rng.permutation(10 * n)[:n] + 1000]
    asked = keys[n_train:]

    table = [[keys[i], *(column[i] for column in cells), answers[i]] for i in range(n)]
    header = [ids, *columns, target]
    train = _csv(header, table[:n_train])
    test = _csv(header[:-1], [row[:-1] for row in table[n_train:]])
    truth = columns_of(metric, [[answer] for answer in answers[n_train:]])
    known = columns_of(metric, [[answer] for answer in answers[:n_train]])
    placeholder = _placeholder(source, metric, answers[:n_train])
    task_id = f"{split}-{source.name}-{index:03d}" + (chr(ord("a") + variant) if variant else "")
    files = {
        "train.csv": train,
        "test.csv": test,
        "sample_submission.csv": _csv([ids, target], [[number, placeholder] for number in asked]),
    }
    meta = {
        "target": target,
        "id": ids,
        "columns": {
            "num": [name for name, kind in zip(columns, kinds, strict=True) if kind == "num"],
            "cat": [name for name, kind in zip(columns, kinds, strict=True) if kind == "cat"],
            "missing": [columns[j] for j in missing],
        },
        "task_type": source.task_type,
        "dataset": source.name,
        "real": source.real,
        "rows": (n_train, n_test),
    }
    if metric == "rmsle":
        meta["least"] = 0.0  # as the text says
    values = columns_of("rmse", [[a] for a in answers]) if source.task_type == "regression" else None
    hidden = {
        "answers_csv": _csv([ids, target], list(zip(asked, answers[n_train:], strict=True))),
        "target": target,
        "id": ids,
        "labels": sorted(set(answers)) if metric_named(metric).takes == "label" else None,
        "range": float(np.ptp(values[n_train:])) if values is not None else None,
        "constant": constant_score(metric, known, truth),
    }
    reference = reference or functools.partial(_reference, metric, train, test, truth)
    draft = Task(
        id=task_id,
        prompt=_prompt(source, metric, meta),
        metric=metric,
        topic=metric,
        split=split,
        files=files,
        truth=Truth(hidden, {"reference": reference}),
        meta=meta,
    )
    return dataclasses.replace(draft, compact=describe(draft))


def _reference(metric: str, train: bytes, test: bytes, answers: NDArray[Any], truth: Truth) -> float:
    return reference_score(metric, train, test, (truth["target"],), truth["id"], answers)


def _untidy(draw: Draw, n: int, rng: Rng) -> tuple[list[list[str]], list[str], list[int]]:
    """Columns as text, whether each is ``num`` or ``cat``, and which have missing values."""
    k = draw.x.shape[1]
    categories = dict(draw.categories)
    x = draw.x[:n].copy()
    if not categories and k > 3 and rng.random() < 0.5:
        j = int(rng.integers(k))
        levels = int(rng.integers(3, 5))
        cuts = np.unique(np.quantile(x[:, j], np.linspace(0, 1, levels + 1)[1:-1]))
        x[:, j] = np.searchsorted(cuts, x[:, j])
        categories[j] = levels
    missing = sorted(int(j) for j in rng.choice(k, size=int(rng.integers(1, 3)), replace=False))
    if rng.random() >= 0.6:
        missing = []
    words = LEVELS[int(rng.integers(len(LEVELS)))]
    cells = []
    for j in range(k):
        texts = [words[int(v)] for v in x[:, j]] if j in categories else _numbers(x[:, j])
        if j in missing:
            holes = rng.random(n) < rng.uniform(0.05, 0.2)
            holes[:: max(n // 8, 1)] = True  # so that both tables have some
            texts = ["" if hole else text for hole, text in zip(holes, texts, strict=True)]
        cells.append(texts)
    return cells, ["cat" if j in categories else "num" for j in range(k)], missing


def _numbers(values: Floats) -> list[str]:
    return [f"{value:.6g}" for value in values.tolist()]


def _answers(source: Source, metric: str, y: Floats, rng: Rng) -> list[str]:
    if source.task_type == "regression":
        return _numbers(y)
    if metric in ("accuracy", "macro_f1") and rng.random() < 0.5:
        words = LABELS[int(rng.integers(len(LABELS)))]
        return [words[int(value)] for value in y]
    return [str(int(value)) for value in y]


def _placeholder(source: Source, metric: str, known: Sequence[str]) -> str:
    if metric_named(metric).takes == "label":
        return min(known)
    return "0.5" if source.task_type == "classification" else "0"


def _csv(header: Sequence[str], rows: Sequence[Sequence[str]]) -> bytes:
    return ("\n".join(",".join(row) for row in [header, *rows]) + "\n").encode()


_GOALS = {
    "accuracy": "the accuracy of the predicted labels (higher is better)",
    "f1": "the F1 score of class 1 (higher is better); predict the labels 0 and 1",
    "macro_f1": "the F1 score averaged over the classes (higher is better); predict labels",
    "qwk": "the quadratic weighted kappa of the predicted labels, which are ordered (higher is better)",
    "roc_auc": "the area under the ROC curve (higher is better); predict the probability of class 1",
    "log_loss": "the log loss (lower is better); predict the probability of class 1, between 0 and 1",
    "rmse": "the root mean squared error (lower is better)",
    "mae": "the mean absolute error (lower is better)",
    "median_ae": "the median absolute error (lower is better)",
    "smape": "the symmetric mean absolute percentage error (lower is better)",
    "r2": "the coefficient of determination R² (higher is better)",
    "rmsle": "the root mean squared logarithmic error (lower is better); predictions must not be negative",
}


def _prompt(source: Source, metric: str, meta: dict[str, Any]) -> str:
    columns, (n_train, n_test) = meta["columns"], meta["rows"]
    kinds = [f"- numbers: {', '.join(columns['num'])}"] if columns["num"] else []
    kinds += [f"- text categories: {', '.join(columns['cat'])}"] if columns["cat"] else []
    kinds += [f"- with missing values: {', '.join(columns['missing'])}"] if columns["missing"] else []
    verb = "Predict the class" if meta["task_type"] == "classification" else "Predict the value of"
    return "\n".join(
        [
            f"{verb} `{meta['target']}` for every row of test.csv ({meta['task_type']}).",
            "",
            f"Background: {source.about}. Column names have been replaced.",
            "",
            "Evaluation",
            f"Submissions are scored by {_GOALS[metric]}.",
            "",
            "Submission file",
            f"A CSV file with the header `{meta['id']},{meta['target']}` and one row for each of "
            f"the {n_test} ids of test.csv, as in sample_submission.csv.",
            "",
            "Data",
            f"- train.csv: {n_train} rows with the identifier `{meta['id']}`, the features and "
            f"`{meta['target']}`",
            f"- test.csv: {n_test} rows without `{meta['target']}`",
            "- sample_submission.csv: a submission in the right form, with placeholder values",
            "",
            "Features",
            *kinds,
            "Not every feature is useful.",
        ]
    )
