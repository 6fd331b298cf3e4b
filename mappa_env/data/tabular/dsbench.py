"""The real DSBench competitions, read in place: data and texts must not be redistributed.

A folder has DSBench's ``data_resplit/<name>/{train,test,*ubmission*}.csv`` and
``answers/<name>/test_answer.csv`` (up to two levels down), and next to them the three JSON files of texts:
``dsbench_modeling_{train,eval}.json`` (JSON Lines) and ``dsbench_modeling_cleaned_prompts.json``.

The data take precedence over the texts: the columns come from the sample submission, the kind of task from
the metric.
"""

from __future__ import annotations

import csv
import functools
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mappa_env.data.base import unknown_task
from mappa_env.data.store import SPLITS, Added, is_split
from mappa_env.data.tabular.names import describe
from mappa_env.errors import DataError, DataMissingError, OptionError, nearest
from mappa_env.grading.metrics import METRICS
from mappa_env.places import data_root
from mappa_env.types import Task

ALIASES = {
    "quadratic_weighted_kappa": "qwk",
    "medae": "median_ae",
    "mcrmse": "rmse",  # the mean over the target columns, as for every metric here
    "normalized_gini": "roc_auc",  # 2 AUC - 1: the same order and the same skill
    "f1_micro": "accuracy",  # the same number if every row has one class
}
METRIC_OF = {"liverpool-ion-switching": "macro_f1"}
"""Metrics of competitions that are missing in the cleaned texts."""
WRONG_TEXT = frozenset({"titanic"})
"""Competitions whose cleaned text belongs to another one; their original text is used instead."""

_TEXTS = "dsbench_modeling_cleaned_prompts.json"
_NAME = re.compile(r"[A-Za-z0-9][\w-]*")
_LEVELS = ("", "*/", "*/*/")


class DSBenchTasks:
    """The usable competitions of a folder. ``skipped``: name -> why a competition is not in ``ids``."""

    name = "dsbench"

    def __init__(self, folder: Path, split: str) -> None:
        self.split = split
        self._data = _find(folder, "data_resplit", folder)
        self._answers = _find(folder, "answers", folder)
        self._rows = _listed(folder, split)
        self._cleaned: Mapping[str, Mapping[str, Any]] = _json(_find(folder, _TEXTS, folder))
        self.skipped: dict[str, str] = {}
        for name in self._rows:
            reason = self._unusable(name)
            if reason:
                self.skipped[name] = reason
        self._ids = tuple(name for name in self._rows if name not in self.skipped)
        if not self._ids:
            raise DataError(f"{folder} has no usable competition ({split}): {dict(self.skipped)}.")

    @property
    def ids(self) -> Sequence[str]:
        """The ids of all tasks, in a fixed order."""
        return self._ids

    def get(self, task_id: str) -> Task:
        """The task ``task_id``. Raises UnknownTaskError."""
        if task_id not in self._ids:
            raise unknown_task(task_id, self)
        return self._task(task_id)

    def _metric(self, name: str) -> str:
        metric = str(self._cleaned.get(name, {}).get("metric") or METRIC_OF.get(name, ""))
        return ALIASES.get(metric, metric)

    def _unusable(self, name: str) -> str | None:
        folder = self._data / name
        for path in (folder / "train.csv", folder / "test.csv", self._answers / name / "test_answer.csv"):
            if not path.is_file():
                return f"{path} does not exist"
        if _sample(folder) is None:
            return f"{folder} has no sample submission"
        metric = self._metric(name)
        return None if metric in METRICS else f"its metric {metric!r} is not supported"

    def _task(self, name: str) -> Task:
        from mappa_env.data.tabular.real import columns_in, hidden

        folder = self._data / name
        sample = _sample(folder)
        assert sample is not None
        ids, *targets = _header(sample)
        target = targets[0] if len(targets) == 1 else targets
        metric = self._metric(name)
        text = str(self._cleaned.get(name, {}).get("cleaned_prompt") or "")
        if not text or name in WRONG_TEXT:
            text = str(self._rows[name]["prompt"])
        kind = "regression" if METRICS[metric].takes in ("number", "nonnegative") else "classification"
        files = {"train.csv": folder / "train.csv", "test.csv": folder / "test.csv"}
        draft = functools.partial(
            Task,
            id=name,
            prompt=f"{text.strip()}\n\nColumns of submission.csv: {','.join([ids, *targets])}",
            metric=metric,
            topic=metric,
            split=self.split,
            files={**files, "sample_submission.csv": sample},
            truth=hidden(metric, files, self._answers / name / "test_answer.csv", ids, targets),
            meta={
                "target": target,
                "id": ids,
                "columns": columns_in(files["train.csv"], files["test.csv"], ids),
                "task_type": kind,
                "dataset": name,
                "real": True,
            },
        )
        return draft(compact=describe(draft()))


def load(split: str, *, part: str | None = None) -> DSBenchTasks:
    """The task set of ``split``: ``train`` or ``eval`` of the added data, or the path of a folder.

    ``part``: keep one split of a folder (default: both). Raises DataMissingError, DataError, OptionError.
    """
    if part is not None and part not in SPLITS:
        raise OptionError(f"part={part!r} is unknown; use one of {SPLITS}." + nearest(part, SPLITS))
    if not is_split(split):
        return DSBenchTasks(Path(split), part or "all")
    try:
        folder = Path((data_root() / "dsbench" / "folder.txt").read_text(encoding="utf-8").strip())
    except FileNotFoundError:
        raise DataMissingError(
            f"dsbench ({split}) is missing: its data may not be redistributed. "
            "Add your copy with: mappa-env data add dsbench PATH"
        ) from None
    return DSBenchTasks(folder, split)


def add(path: str | Path) -> Added:
    """Check a folder and store its path; nothing is copied. Raises DataMissingError, DataError."""
    folder = Path(path).expanduser().resolve()
    tasks = DSBenchTasks(folder, "all")
    target = data_root() / "dsbench" / "folder.txt"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(f"{folder}\n", encoding="utf-8")
    return Added(target, len(tasks.ids), len(tasks.skipped))


def _find(folder: Path, name: str, where: Path) -> Path:
    for level in _LEVELS:
        found = sorted(folder.glob(f"{level}{name}"))
        if found:
            return found[0]
    raise DataMissingError(
        f"{where}: {name!r} is missing; the folder needs data_resplit/, answers/ and the JSON files. "
        "Add a complete folder with: mappa-env data add dsbench PATH"
    )


def _listed(folder: Path, split: str) -> dict[str, Mapping[str, Any]]:
    """Name -> row of the JSON Lines files of the split (``all``: both splits), in file order."""
    rows: dict[str, Mapping[str, Any]] = {}
    for part in SPLITS if split == "all" else (split,):
        path = _find(folder, f"dsbench_modeling_{part}.json", folder)
        for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1):
            if line.strip():
                name, row = _row(line, f"{path}, line {number}")
                rows[name] = row
    return rows


def _row(line: str, where: str) -> tuple[str, Mapping[str, Any]]:
    try:
        row = json.loads(line)
        name, text = row["metadata"]["task_id"], row["prompt"]
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{where}: a row needs 'prompt' and 'metadata.task_id' ({error!r}).") from None
    if not isinstance(text, str) or not isinstance(name, str) or not _NAME.fullmatch(name):
        raise DataError(f"{where}: 'metadata.task_id' must name a competition, found {name!r}.")
    return name, row


def _json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        raise DataError(f"{path} is not readable JSON: {error}") from None
    if not isinstance(value, dict):
        raise DataError(f"{path} must hold an object, found {type(value).__name__}.")
    return value


def _sample(folder: Path) -> Path | None:
    """The sample submission: the CSV file that is not a table (its name differs between competitions)."""
    found = [p for p in sorted(folder.glob("*.csv")) if p.name not in ("train.csv", "test.csv")]
    named = [p for p in found if "ubmission" in p.name]
    return next(iter(named + found), None)


def _header(path: Path) -> list[str]:
    with path.open(encoding="utf-8-sig", newline="") as stream:
        header = [name.strip() for name in next(csv.reader(stream), [])]
    if len(header) < 2:
        raise DataError(f"{path} needs an id column and a target column, found {header}.")
    return header
