"""The real DSBench competitions, in the user's own copy of the release."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from mappa_env.data.store import SPLITS, Added, LeftOut, is_split, read_record, record, record_of, recorded
from mappa_env.data.tabular.dsbench.competitions import competitions
from mappa_env.data.tabular.dsbench.release import Release
from mappa_env.data.tabular.dsbench.scoring import sample_score
from mappa_env.data.tabular.dsbench.tasks import DSBenchTasks, none_usable
from mappa_env.errors import DataError, DataMissingError, OptionError, nearest
from mappa_env.types import Task

__all__ = ["DSBenchTasks", "Release", "add", "load", "load_all"]


def load(split: str, *, part: str | None = None) -> DSBenchTasks:
    """The task set of ``split``: ``train`` or ``eval`` of the added data, or the path of a folder.

    Added data were checked when they were added; files whose size changed since are left out. A folder is
    checked here, which takes a second for 50 MB. ``part``: keep one split of a folder (default: both).
    Raises DataMissingError, DataError, OptionError.
    """
    if part is not None and part not in SPLITS:
        raise OptionError(f"part={part!r} is unknown; use one of {SPLITS}." + nearest(part, SPLITS))
    if not is_split(split):
        return DSBenchTasks(Release(Path(split).expanduser()), part or "all")
    path = record_of("dsbench", split)
    if not path.exists():
        raise _missing(split)
    added = read_record(path)
    return DSBenchTasks(Release(added.source), split, _unchanged([added]))


def load_all(path: str | None = None) -> DSBenchTasks:
    """Both splits of the added data, or of the folder at ``path``. Raises DataMissingError, DataError."""
    if path is not None:
        return DSBenchTasks(Release(Path(path).expanduser()), "all")
    records = recorded("dsbench")
    if not records:
        raise _missing("train, eval")
    return DSBenchTasks(Release(records[0].source), "all", _unchanged(records))


def _missing(split: str) -> DataMissingError:
    return DataMissingError(
        f"dsbench ({split}) is missing: its data may not be redistributed. "
        "Add your copy with: mappa-env data add dsbench PATH"
    )


def _unchanged(records: Sequence[Added]) -> Callable[[str], None]:
    """What raises DataError for a competition that was left out, or whose files have changed since."""
    left_out = {each.where: each.reason for added in records for each in added.left_out}
    known = {path for added in records for path in added.files or {}}
    changed = [problem for added in records for problem in added.problems()]
    release = Release(records[0].source)

    def check(name: str) -> None:
        if name in left_out:
            raise DataError(left_out[name])
        files = release.files(name)
        for path in map(str, (files.train, files.test, files.sample, files.answers)):
            if path not in known:
                raise DataError(f"{path} was not there when the data was added; add it again")
            if problem := next((text for text in changed if text.startswith(path)), None):
                raise DataError(problem)

    return check


def _without_baseline(task: Task) -> Iterator[str]:
    """Why the sample submission of a task cannot be scored, so that ``score dsbench`` has no baseline."""
    known = competitions().get(task.id)
    try:
        sample_score(task if known is None else dataclasses.replace(task, metric=known.published))
    except DataError as error:
        yield str(error)


def add(path: str | Path) -> list[Added]:
    """Check a folder and record both splits with the digests of their files; nothing is copied.

    Also fits the reference models, so that nothing of it can fail later. What is wrong with a competition
    leaves out that one alone. Raises DataMissingError, and DataError if no competition is usable.
    """
    folder = Path(path).expanduser().resolve()
    release = Release(folder)
    tasks = DSBenchTasks(release, "all")
    left_out = dict(tasks.skipped)
    corrected: dict[str, list[str]] = {}
    noted: dict[str, list[str]] = {}
    for name in tasks.ids:
        try:
            task = tasks.get(name)
            task.truth["reference"]
            corrected[name] = list(tasks.corrections(name))
            noted[name] = [*tasks.unlearned(name), *_without_baseline(task)]
        except DataError as error:
            left_out[name] = str(error)
    if not noted:
        raise DataError(none_usable(release, "all", left_out))
    added = []
    for split in SPLITS:
        names = sorted(release.names(split), key=release.absent)  # those with a problem are listed first
        ids = [name for name in noted if name in names]
        refused = {
            **{name: left_out[name] for name in names if name in left_out},
            **release.unreadable[split],
        }
        added.append(
            record(
                "dsbench",
                split,
                folder,
                source=folder,
                tasks=len(ids),
                left_out=[LeftOut(name, reason) for name, reason in refused.items()],
                files=[file for name in ids for file in tasks.paths(name)],
                corrected=[f"{name}: {text}" for name in ids for text in corrected[name]],
                noted=[f"{name}: {text}" for name in ids for text in noted[name]],
            )
        )
    return added
