"""A folder with DSBench's data: where the files of each competition lie, and which text belongs to it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mappa_env.data.files import problem_of, regular
from mappa_env.data.rows import prompt_of, storable
from mappa_env.data.store import SPLITS
from mappa_env.data.tabular.dsbench.competitions import competitions
from mappa_env.errors import DataError, DataMissingError
from mappa_env.grading.metrics import METRICS

CLEANED = "dsbench_modeling_cleaned_prompts.json"
ALIASES = {
    "quadratic_weighted_kappa": "qwk",
    "medae": "median_ae",
    "f1_micro": "micro_f1",
    "map_at_3": "map@3",
}
"""Names of metrics in the cleaned texts -> names here."""
_OF_COLUMNS = {
    "log_loss": "multiclass_log_loss",
    "rmse": "mcrmse",
    "rmsle": "mean_rmsle",
    "roc_auc": "mean_roc_auc",
    "spearman": "mean_spearman",
    "mae": "mean_mae",
}
"""Metric of one target column -> the metric of several."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
_SAMPLES = (
    re.compile(r"sample.*(submission|solution).*\.csv", re.IGNORECASE),
    re.compile(r"gender_submission\.csv"),
    re.compile(r"submission\.csv"),
)
"""Names of sample submissions, the surest first."""
_LEVELS = ("", "*/", "*/*/")


@dataclass(frozen=True, slots=True)
class Files:
    """The files of a competition; ``sample`` is the one chosen among the CSV files beside the tables."""

    train: Path
    test: Path
    sample: Path
    answers: Path

    @property
    def tables(self) -> dict[str, Path]:
        """The public files by their name in a workspace."""
        return {"train.csv": self.train, "test.csv": self.test, "sample_submission.csv": self.sample}


class Release:
    """A folder in DSBench's layout, searched up to two levels down.

    ``data_resplit/<name>/`` has the tables, ``answers/<name>/test_answer.csv`` the answers and
    ``task/<name>.txt`` the text. Three JSON files may add texts: ``dsbench_modeling_{train,eval}.json``
    (JSON Lines) and ``dsbench_modeling_cleaned_prompts.json``. Competitions that only they name are read too.
    """

    def __init__(self, folder: Path) -> None:
        """Raises DataMissingError, and DataError for a file that is no JSON at all."""
        self.folder = folder
        self._data = self._needed("data_resplit")
        self._answers = self._needed("answers")
        self._texts = self._found("task")
        self._rows: dict[str, Mapping[str, Any]] = {}
        self._refused: dict[str, str] = {}
        self.unreadable: dict[str, dict[str, str]] = {}
        """Split -> file and line of a row that names no competition -> why it is left out."""
        self._split_of = {name: each.split for name, each in competitions().items()}
        for part in SPLITS:
            self.unreadable[part] = {}
            for where, line in self._listed(part):
                self._take(part, where, line)
        cleaned = self._found(CLEANED)
        self._cleaned: Mapping[str, Any] = {} if cleaned is None else _json(cleaned)

    def names(self, split: str) -> list[str]:
        """The competitions of ``split`` (``all``: of both) that the release should have, in a fixed order."""
        return [name for name, own in self._split_of.items() if split in (own, "all")]

    def files(self, name: str) -> Files:
        """The files of a competition. Raises DataError if one is missing or unclear."""
        folder, answers = self._data / name, self._answers / name / "test_answer.csv"
        tables = folder / "train.csv", folder / "test.csv"
        if not folder.is_dir():
            raise DataError(f"{folder} does not exist")
        for path in (*tables, answers):
            if problem := problem_of(path):
                raise DataError(f"{path} {problem.removesuffix('.')}")
        return Files(*tables, _sample(folder), answers)

    def absent(self, name: str) -> bool:
        """Whether the release has neither tables nor answers of a competition that it should have."""
        folders = self._data / name, self._answers / name
        return name in self._split_of and not any(folder.is_dir() for folder in folders)

    def metric(self, name: str, targets: Sequence[str]) -> str:
        """The metric of a competition. Raises DataError if nothing names one that is offered."""
        if name in competitions():
            return competitions()[name].metric
        said = str(self._about(name).get("metric") or "")
        metric = ALIASES.get(said, said)
        if len(targets) > 1:
            metric = _OF_COLUMNS.get(metric, metric)
        if metric not in METRICS:
            found = f"names the metric {said!r}, which is not offered" if said else "names no metric for it"
            raise DataError(f"it is not one of DSBench's competitions, and {CLEANED} {found}")
        return metric

    def text(self, name: str, known: Sequence[str]) -> str:
        """The competition's text. ``known``: all columns of its tables. Raises DataError if it has none."""
        if name in self._refused:
            raise DataError(self._refused[name])
        about = self._about(name)
        cleaned = about.get("cleaned_prompt")
        if isinstance(cleaned, str) and cleaned.strip() and _foreign(about, known) is None:
            return storable(f"cleaned_prompt of {name} in {CLEANED}", cleaned.strip())
        if name in self._rows:
            return str(self._rows[name]["prompt"]).strip()
        path = None if self._texts is None else self._texts / f"{name}.txt"
        if path is None:
            raise DataError(f"it has no text: {self.folder / 'task' / f'{name}.txt'} does not exist")
        if problem := problem_of(path):
            raise DataError(f"it has no text: {path} {problem.removesuffix('.')}")
        try:
            text = path.read_text(encoding="utf-8-sig").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise DataError(f"{path} is not readable UTF-8 text: {error}") from None
        if not text:
            raise DataError(f"{path} is empty")
        return storable(str(path), text)

    def corrections(self, name: str, metric: str, family: str, known: Sequence[str]) -> Iterator[str]:
        """What the JSON files say wrongly about a competition, and what counts instead."""
        about, row = self._about(name), self._rows.get(name, {})
        labels = {
            "data_type": (row.get("metadata") or {}).get("data_type"),
            "task_type": about.get("task_type"),
        }
        for key, value in labels.items():
            if value is not None and value != family:
                yield f"{key} {value!r} is wrong: the metric {metric} makes it {family!r}"
        said = about.get("metric")
        if said is not None and not _same(ALIASES.get(str(said), str(said)), metric):
            yield f"metric {said!r} is wrong: its text asks for {metric}"
        if (column := _foreign(about, known)) is not None:
            yield f"the cleaned text is about a column {column!r} that no table has: the original text counts"

    def _about(self, name: str) -> Mapping[str, Any]:
        about = self._cleaned.get(name)
        return about if isinstance(about, dict) else {}

    def _take(self, split: str, where: str, line: str) -> None:
        """Keep a row, or the reason why it is left out: under its name, if it has one."""
        try:
            name, row = _row(line)
        except DataError as error:
            self.unreadable[split][where] = str(error)
            return
        self._split_of.setdefault(name, split)
        try:
            self._rows[name] = {**row, "prompt": prompt_of(row)}
        except DataError as error:
            self._refused[name] = f"{where}: {error}"

    def _listed(self, split: str) -> Iterator[tuple[str, str]]:
        path = self._found(f"dsbench_modeling_{split}.json")
        if path is None:
            return
        for number, line in enumerate(_text(path).split("\n"), 1):
            if line.strip():
                yield f"{path}, line {number}", line

    def _found(self, name: str) -> Path | None:
        return next((path for level in _LEVELS for path in sorted(self.folder.glob(f"{level}{name}"))), None)

    def _needed(self, name: str) -> Path:
        found = self._found(name)
        if found is None:
            raise DataMissingError(
                f"{self.folder}: {name!r} is missing; a release of DSBench has data_resplit/, answers/ and "
                "task/. Unpack its data.zip and add it with: mappa-env data add dsbench PATH"
            )
        return found


def _sample(folder: Path) -> Path:
    """The sample submission, whose name differs between competitions. Raises DataError."""
    tables = ("train.csv", "test.csv")
    others = [path for path in sorted(folder.glob("*.csv")) if path.name not in tables]
    for pattern in _SAMPLES:
        found = [path for path in others if pattern.fullmatch(path.name)]
        if len(found) > 1:
            raise DataError(f"{folder} has several sample submissions: {[path.name for path in found]}")
        if found and (problem := problem_of(found[0])):
            raise DataError(f"{found[0]} {problem.removesuffix('.')}")
        if found:
            return found[0]
    seen = f"; {[path.name for path in others]} are not named like one" if others else ""
    raise DataError(f"{folder} has no sample submission, such as sample_submission.csv{seen}")


def _foreign(about: Mapping[str, Any], known: Sequence[str]) -> str | None:
    """The target that a cleaned text names, if no table has it: the text belongs to another competition."""
    column = about.get("target_column")
    several = len(known) > 0 and isinstance(column, str) and column[:1].isdigit()  # "30_labels"
    return column if isinstance(column, str) and column not in known and not several else None


def _same(one: str, other: str) -> bool:
    """Whether two names mean one formula, for one or for several columns."""
    return one == other or (one in METRICS and METRICS[one].function is METRICS[other].function)


def _row(line: str) -> tuple[str, Mapping[str, Any]]:
    """The name of the competition and its row. Raises DataError."""
    try:
        row = json.loads(line)
        name = row["metadata"]["task_id"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DataError(f"a row needs 'prompt' and 'metadata.task_id' ({error!r:.200}).") from None
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise DataError(f"'metadata.task_id' must name a competition, found {name!r:.100}.")
    return name, row


def _json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(_text(path))
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is not readable JSON: {error}") from None
    if not isinstance(value, dict):
        raise DataError(f"{path} must hold an object, found {type(value).__name__}.")
    return value


def _text(path: Path) -> str:
    regular(path)
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} is not readable UTF-8 text: {error}") from None
