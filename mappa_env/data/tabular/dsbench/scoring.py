"""Scores folders of submissions, or of result tables as in DSBench's own archive, by DSBench's own measures.

A result table has a folder per competition with ``result.txt``, which holds one number. An archive has
several tables: ``GT`` (the answers against themselves), ``baseline`` (the sample submissions) and one for
each model.
"""

from __future__ import annotations

import dataclasses
import math
import os
import stat
import zipfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from mappa_env.data.tabular.dsbench.competitions import competitions
from mappa_env.errors import DataError, DataMissingError, nearest
from mappa_env.grading.metrics import metric_named
from mappa_env.grading.rpg import gain, rpg
from mappa_env.grading.spelling import number
from mappa_env.grading.submission import best_score, score_submission
from mappa_env.types import Task

BEST, BASELINE, RESULT = "GT", "baseline", "result.txt"
ARCHIVE = "save_performance"
SUBMISSION = "submission.csv"
NO_GAIN = ("no_data", "no_baseline")
"""Status of rows with a submission whose gain nobody knows."""
_MAX_RESULT, _SPARE = 1000, 2**20
_TOLERANCE = 1e-9
TaskOf = Callable[[str], Task]
"""Gives the task of a competition. Raises DataError if it cannot be used, DataMissingError if none can."""


@dataclass(frozen=True, slots=True)
class Row:
    """One competition. ``status``: ``ok``, ``missing``, or why it counts nothing in RPG, with a ``reason``.

    ``no_data`` and ``no_baseline`` are no fault of the submission: nobody knows its gain. ``completed``:
    DSBench counts it as completed. ``gain`` is its part of RPG.
    """

    name: str
    metric: str
    status: str
    score: float | None = None
    baseline: float | None = None
    best: float | None = None
    completed: bool = False
    reason: str = ""

    @property
    def gain(self) -> float:
        """The competition's part of RPG."""
        if self.status != "ok" or self.baseline is None or self.best is None:
            return 0.0
        return gain(self.score, self.baseline, self.best)


@dataclass(frozen=True, slots=True)
class Report:
    """A model's results over all 74 competitions. ``unknown``: names in its folder that are none of them.

    A gain that nobody knows counts 0: RPG is at least this if ``no_gain`` names competitions, and so is the
    number of completed ones if ``no_data`` does. Their JSON is null then.
    """

    model: str
    rows: tuple[Row, ...]
    unknown: tuple[str, ...] = ()

    @property
    def rpg(self) -> float:
        """RPG by the published formula."""
        return rpg([row.gain for row in self.rows])

    @property
    def rpg_capped(self) -> float:
        """The same, with at most 1 per competition."""
        return rpg([row.gain for row in self.rows], capped=True)

    @property
    def completed(self) -> int:
        """The number of competitions with a result."""
        return sum(row.completed for row in self.rows)

    @property
    def no_data(self) -> tuple[str, ...]:
        """The competitions whose submission cannot be judged, because their data cannot be used."""
        return tuple(row.name for row in self.rows if row.status == "no_data")

    @property
    def no_gain(self) -> tuple[str, ...]:
        """The competitions whose submission has no gain, for lack of data or of a baseline."""
        return tuple(row.name for row in self.rows if row.status in NO_GAIN)

    def as_json(self) -> dict[str, object]:
        """The report as plain values."""
        return {
            "model": self.model,
            "rpg": None if self.no_gain else self.rpg,
            "rpg_capped": None if self.no_gain else self.rpg_capped,
            "completed": None if self.no_data else self.completed,
            "competitions": len(self.rows),
            "completion_rate": None if self.no_data else self.completed / len(self.rows),
            "no_data": list(self.no_data),
            "no_gain": list(self.no_gain),
            "unknown": list(self.unknown),
            "rows": [
                {**dataclasses.asdict(row), "gain": None if row.name in self.no_gain else row.gain}
                for row in self.rows
            ],
        }


def score_folder(folder: Path, task_of: TaskOf, tables: Path | None = None) -> list[Report]:
    """A report for each model in ``folder``: an archive, one model's result table, or its submissions.

    ``tables``: the folder with ``GT`` and ``baseline``, where it is not the archive itself or beside the
    model's table. Submissions need ``task_of``; without ``tables`` it also gives baseline and best score.
    Raises DataError, and DataMissingError, also where there are no tasks at all to judge submissions by.
    """
    _check_folder(folder)
    if tables is not None:
        _check_folder(tables)
    folder = folder / ARCHIVE if (folder / ARCHIVE).is_dir() else folder
    folders = [
        path for path in sorted(folder.iterdir()) if path.is_dir() and not path.name.startswith((".", "__"))
    ]
    if tables is not None:
        tables = tables / ARCHIVE if (tables / ARCHIVE).is_dir() else tables
    if any((path / RESULT).is_file() for path in folders):
        return [_of_results(folder, tables or folder.parent)]
    if {BEST, BASELINE} <= {path.name for path in folders}:
        models = [path for path in folders if path.name not in (BEST, BASELINE)]
        if not models:
            raise DataError(f"{folder} has {BEST} and {BASELINE}, but no folder of a model beside them.")
        return [_of_results(path, tables or folder) for path in models]
    return [_of_submissions(folder, task_of, tables)]


def _check_folder(path: Path) -> None:
    """Raise DataMissingError, with the remedy, for anything but a folder."""
    if path.is_file() and zipfile.is_zipfile(path):
        raise DataMissingError(
            f"{path} is a zip archive; unpack it with: unzip {path.name} -d FOLDER, and name that folder."
        )
    if not path.is_dir():
        raise DataMissingError(f"{path} is not a folder.")


def _of_results(folder: Path, tables: Path) -> Report:
    best, baseline = _table(tables / BEST), _table(tables / BASELINE)
    found = _results(folder)
    rows = []
    for name, each in competitions().items():
        row = Row(name, each.published, "missing", None, baseline[name], best[name])
        result = found.get(name)
        if isinstance(result, str):
            row = dataclasses.replace(row, status="unreadable", reason=result)
        rows.append(_judged(row, result) if isinstance(result, float) else row)
    return Report(folder.name, tuple(rows), _unknown(found))


def _judged(row: Row, score: float) -> Row:
    """The row with its score, which must be possible."""
    metric = metric_named(row.metric)
    row = dataclasses.replace(row, score=score, completed=True)
    if math.isnan(score):
        return dataclasses.replace(row, status="nan", score=None, reason="the result is nan")
    if not metric.lowest - _TOLERANCE <= score <= metric.highest + _TOLERANCE or math.isinf(score):
        reason = f"{row.metric} is within {metric.lowest:g}..{metric.highest:g}, found {score:g}"
        return dataclasses.replace(row, status="impossible", reason=reason)
    return dataclasses.replace(row, status="ok")


def _of_submissions(folder: Path, task_of: TaskOf, tables: Path | None) -> Report:
    files = _submissions(folder)
    known = {key: None if tables is None else _table(tables / key) for key in (BEST, BASELINE)}
    rows = []
    for name, each in competitions().items():
        if name not in files:
            rows.append(Row(name, each.published, "missing"))
            continue
        try:
            task = dataclasses.replace(task_of(name), metric=each.published)
            rows.append(_graded(task, files[name], known[BASELINE], known[BEST]))
        except DataError as error:
            rows.append(Row(name, each.published, "no_data", reason=str(error)))
    return Report(folder.name, tuple(rows), _unknown(files))


def _graded(
    task: Task, path: Path, baselines: Mapping[str, float] | None, bests: Mapping[str, float] | None
) -> Row:
    answers = task.truth["answers_csv"]
    baseline, why = baselines[task.id] if baselines else None, ""
    if baselines is None:
        try:
            baseline = sample_score(task)
        except DataError as error:
            why = str(error)
    best = bests[task.id] if bests else best_score(task)
    row = Row(task.id, task.metric, "ok", None, baseline, best)
    try:
        data = _content(path, _SPARE + 8 * len(answers))
    except OSError as error:
        return dataclasses.replace(row, status="unreadable", reason=f"{path}: {error.strerror or error}")
    scored = score_submission(task, data)
    row = dataclasses.replace(
        row,
        score=scored.score,
        status=scored.status,
        reason=scored.reason,
        completed=scored.score is not None,
    )
    if row.completed and row.baseline is None:  # only the gain needs one
        return dataclasses.replace(row, status="no_baseline", reason=f"{why}; its gain counts 0")
    return row


def sample_score(task: Task) -> float:
    """The score of the sample submission. Raises DataError if it has none."""
    content = task.files["sample_submission.csv"]
    if isinstance(content, Path):
        try:
            scored = score_submission(task, content.read_bytes())
        except OSError as error:
            raise DataError(f"{content}: {error.strerror or error}") from None
    else:
        scored = score_submission(task, content)
    if scored.score is None:
        raise DataError(
            f"the sample submission of {task.id} has no score ({scored.reason}), so there is no baseline; "
            "give DSBench's own with --tables"
        )
    return scored.score


def _table(folder: Path) -> Mapping[str, float]:
    """The results of all competitions. Raises DataMissingError, DataError."""
    found = _results(folder)
    if missing := [name for name in competitions() if name not in found]:
        raise DataMissingError(
            f"{folder / missing[0] / RESULT} does not exist ({len(missing)} of {len(competitions())} results "
            f"are missing). DSBench's {ARCHIVE}.zip has {BEST} and {BASELINE}; name its folder with --tables."
        )
    numbers = {}
    for name, result in found.items():
        if isinstance(result, str):
            raise DataError(result)
        if name in competitions() and not math.isfinite(result):
            raise DataError(f"{folder / name / RESULT} must be a finite number, found {result}.")
        numbers[name] = result
    return numbers


def _results(folder: Path) -> dict[str, float | str]:
    """Name -> number, of each subfolder with a result; a text says why the file holds none."""
    found: dict[str, float | str] = {}
    for path in sorted(folder.glob(f"*/{RESULT}")):
        try:
            text = _content(path, _MAX_RESULT).decode("ascii").strip()
            found[path.parent.name] = number(text)
        except (OSError, ValueError) as error:
            found[path.parent.name] = f"{path} must hold one number: {error}"
    return found


def _submissions(folder: Path) -> dict[str, Path]:
    """Name -> file: ``<name>.csv`` or ``<name>/submission.csv``. Raises DataMissingError."""
    found = {path.stem: path for path in sorted(folder.glob("*.csv"))}
    found |= {path.parent.name: path for path in sorted(folder.glob(f"*/{SUBMISSION}"))}
    if not found:
        raise DataMissingError(
            f"{folder} has neither <competition>/{RESULT} nor <competition>.csv "
            f"nor <competition>/{SUBMISSION}."
        )
    return found


def _content(path: Path, most: int) -> bytes:
    """A regular file of at most ``most`` bytes, never through a link. Raises OSError."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(handle, "rb") as stream:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            raise OSError("it is not a regular file")
        if found.st_size > most:
            raise OSError(f"its {found.st_size} bytes are more than the {most} allowed")
        return stream.read(most + 1)


def _unknown(names: Iterable[str]) -> tuple[str, ...]:
    """Names that are no competition, each with the nearest that is."""
    return tuple(f"{name!r}{nearest(name, competitions())}" for name in names if name not in competitions())
