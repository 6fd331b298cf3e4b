"""The traces of a run, a folder or a file: all episodes in a list, and each of them on demand."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from mappa_env.errors import DataError
from mappa_env.trace.file import TraceFile
from mappa_env.trace.recorded import Recorded, Summary
from mappa_env.types import Trajectory

FOLDER = "traces"
"""A run's subfolder for traces."""
TRAIN = "train"
"""The subfolder of ``FOLDER`` for training steps, a file each."""
ENDINGS = (".jsonl", ".jsonl.gz")
_FIRST, _LAST = ("calibration", "before"), ("after",)


class Traces:
    """The episodes at ``path``: a trace file, a folder of them, or a run's folder, which may still grow.

    Raises DataError if no trace is found or a trace is damaged, and OSError if a file cannot be read.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._files: dict[str, TraceFile] = {}
        self.refresh()
        if not self.path.is_dir():
            for file in self._files.values():
                _check(file)

    def refresh(self) -> bool:
        """Read what has been written since. Returns whether anything has changed."""
        found = trace_files(self.path)
        root = found[0].parent if len(found) == 1 and not self.path.is_dir() else self.path
        files, changed = {}, False
        for path in found:
            name = path.relative_to(root).as_posix()
            known = self._files.get(name)
            changed |= known is None or known.refresh()
            files[name] = TraceFile(path, name) if known is None else known
        changed |= files.keys() != self._files.keys()
        self._files = files
        return changed

    @property
    def files(self) -> tuple[Path, ...]:
        """The trace files, in the order of their episodes."""
        return tuple(file.path for file in self._files.values())

    @property
    def summaries(self) -> Iterator[Summary]:
        """Every complete episode: those before training first, then step by step."""
        return (summary for file in self._files.values() for summary in file.summaries)

    def load(self, summary: Summary) -> Recorded:
        """The whole episode. Raises KeyError if it is not here, DataError if it is damaged."""
        return self._files[summary.file].load(summary.key)

    def __iter__(self) -> Iterator[Recorded]:
        """Every complete episode with everything."""
        return (recorded for file in self._files.values() for recorded in file)


def trace_files(path: Path, *, steps: bool = True) -> list[Path]:
    """``path`` itself, or the traces in the folder ``path``, a run's or any other, in the order of a run.

    ``NAME.jsonl`` also finds ``NAME.jsonl.gz``. ``steps``: with those of the training steps. Raises DataError
    if there is none.
    """
    if not path.is_dir():
        return [existing(path)]
    for folder in (path / FOLDER, path):
        if folder == path and (path / "config.yaml").exists():
            break  # a run's own .jsonl files are logs
        inside = (folder, folder / TRAIN) if steps else (folder,)
        found = [file for each in inside for file in each.glob("*.jsonl*") if file.name.endswith(ENDINGS)]
        if found:
            return sorted(found, key=_order)
    raise DataError(f"{path} has no traces: {path / FOLDER} contains no .jsonl or .jsonl.gz file.")


def existing(path: Path) -> Path:
    """``path``, or if it does not exist ``path`` with ``.gz``, which is what it became when it was closed."""
    packed = path.with_name(f"{path.name}.gz")
    return packed if not path.exists() and packed.exists() else path


def read(path: str | Path) -> Iterator[Trajectory]:
    """The episodes of a file in the order in which they ended; ``task.truth`` and ``task.files`` are empty.

    Skips episodes that a crash left incomplete. Raises DataError for a file of another version or another
    format.
    """
    file = TraceFile(existing(Path(path)))
    _check(file)
    return (recorded.trajectory for recorded in file)


def _check(file: TraceFile) -> None:
    if not file.recognised:
        raise DataError(f"{file.path} is not a trace: none of its lines is one.")


def _order(path: Path) -> tuple[int, str]:
    phase = path.name.split(".")[0]
    return (0 if phase in _FIRST else 2 if phase in _LAST else 1, str(path))
