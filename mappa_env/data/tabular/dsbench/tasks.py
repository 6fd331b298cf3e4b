"""The competitions of a release as tasks, read in place: data and texts must not be redistributed.

The data take precedence over the texts: the columns come from the tables, the kind of task from the metric.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from mappa_env.data.base import unknown_task
from mappa_env.data.stamps import Stamps, check_unchanged, stamps_of
from mappa_env.data.tabular.dsbench.checking import check, unlearned
from mappa_env.data.tabular.dsbench.layout import Layout, header_of, layout_of, renamed
from mappa_env.data.tabular.dsbench.release import Files, Release
from mappa_env.data.tabular.dsbench.truth import columns_in, hidden
from mappa_env.data.tabular.names import describe
from mappa_env.errors import DataError
from mappa_env.types import Task


class DSBenchTasks:
    """The usable competitions of a release.

    ``skipped``: name, or file and line of a row without one -> why it is not in ``ids``.
    """

    name = "dsbench"

    def __init__(self, release: Release, split: str, usable: Callable[[str], None] | None = None) -> None:
        """``usable`` raises DataError for a competition that is to be left out (default: ``check``).

        Raises DataError if no competition is usable.
        """
        self.split, self._release = split, release
        self.skipped: dict[str, str] = {}
        self._stamps: dict[str, Stamps] = {}
        for name in release.names(split):
            try:
                stamps = stamps_of(self.paths(name))
                (usable or self.check)(name)
            except DataError as error:
                self.skipped[name] = str(error)
            else:
                self._stamps[name] = stamps
        for part, rows in release.unreadable.items():
            if split in (part, "all"):
                self.skipped |= rows
        self._ids = tuple(self._stamps)
        if not self._ids:
            raise DataError(none_usable(release, split, self.skipped))

    @property
    def ids(self) -> Sequence[str]:
        """The ids of all tasks, in a fixed order."""
        return self._ids

    def get(self, task_id: str) -> Task:
        """The task ``task_id``. Raises UnknownTaskError, and DataError if its files have changed since."""
        if task_id not in self._stamps:
            raise unknown_task(task_id, self)
        check_unchanged(self._stamps[task_id], self.paths(task_id))
        return self._task(task_id)

    def usable(self, name: str) -> Task:
        """The task of a competition. Raises DataError, with the reason, for one that is left out."""
        if name in self.skipped:
            raise DataError(self.skipped[name])
        return self.get(name)

    def check(self, name: str) -> None:
        """Read all files of a competition. Raises DataError for the first thing that is wrong."""
        files, layout, metric = self._parts(name)
        _checked(files, layout, metric)
        self._release.text(name, layout.columns)

    def corrections(self, name: str) -> Iterator[str]:
        """What the release says wrongly about a competition, and what counts instead. Raises DataError."""
        _, layout, metric = self._parts(name)
        yield from self._release.corrections(name, metric, Task(name, "", metric).family, layout.columns)
        for other, own in layout.aliases.items():
            yield (
                f"the sample submission calls the target {other!r}, train.csv {own!r}: "
                "submissions may use either"
            )

    def unlearned(self, name: str) -> Iterator[str]:
        """The labels of a competition's answers that no row of train.csv has, with the first row.

        Raises DataError.
        """
        return unlearned(*self._parts(name))

    def paths(self, name: str) -> Iterable[Path]:
        """The files from which a task is read."""
        files = self._release.files(name)
        return files.train, files.test, files.sample, files.answers

    def _parts(self, name: str) -> tuple[Files, Layout, str]:
        files = self._release.files(name)
        layout = layout_of(files)
        return files, layout, self._release.metric(name, layout.targets)

    def _task(self, name: str) -> Task:
        files, layout, metric = self._parts(name)
        ids, targets = layout.ids, list(layout.targets)
        tables: Mapping[str, Path | bytes] = files.tables
        if layout.aliases:
            names = [layout.aliases.get(column, column) for column in header_of(files.sample)]
            tables = {**tables, "sample_submission.csv": renamed(files.sample, names)}
        text = self._release.text(name, layout.columns)
        draft = functools.partial(
            Task,
            id=name,
            prompt=f"{text}\n\nColumns of submission.csv: {','.join([ids, *targets])}",
            metric=metric,
            topic=metric,
            split=self.split,
            files=tables,
            truth=hidden(metric, files, layout),
        )
        meta = {
            "target": targets[0] if len(targets) == 1 else targets,
            "id": ids,
            "columns": columns_in(files, layout),
            "task_type": Task(name, "", metric).family,
            "dataset": name,
            "real": True,
        }
        return draft(meta=meta, compact=describe(draft(meta=meta)))


def _checked(files: Files, layout: Layout, metric: str) -> None:
    stamps = stamps_of((files.train, files.test, files.sample, files.answers))
    aliases = tuple(layout.aliases.items())
    reason = _reason(files, (layout.ids, layout.targets, aliases, layout.columns), metric, stamps)
    if reason:
        raise DataError(reason)


@functools.lru_cache(maxsize=256)
def _reason(
    files: Files,
    layout: tuple[str, tuple[str, ...], tuple[tuple[str, str], ...], tuple[str, ...]],
    metric: str,
    stamps: Stamps,
) -> str:
    """Why a competition cannot be played, found once per process unless a file changes (``stamps``)."""
    ids, targets, aliases, columns = layout
    try:
        check(files, Layout(ids, targets, dict(aliases), columns), metric)
    except DataError as error:
        return str(error)
    except Exception as error:  # noqa: BLE001  (what trips a check leaves out one competition, not the release)
        return f"{files.answers} and {files.train}, columns {list(targets)}: {type(error).__name__}: {error}"
    return ""


def none_usable(release: Release, split: str, skipped: Mapping[str, str], most: int = 3) -> str:
    """Why a release has no task: some of the reasons, first of those competitions that are there."""
    ordered = sorted(skipped.items(), key=lambda item: release.absent(item[0]))
    shown = "; ".join(f"{name}: {reason}" for name, reason in ordered[:most])
    more = f"; and {len(skipped) - most} more" if len(skipped) > most else ""
    return f"{release.folder} has no usable competition ({split}). {shown}{more}."
