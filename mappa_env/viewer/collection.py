"""The episodes of a run, a folder or a file, numbered in the order in which the viewer found them."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from mappa_env.errors import DataError
from mappa_env.trace import Summary, Traces
from mappa_env.viewer.blame import blame
from mappa_env.viewer.document import document
from mappa_env.viewer.plain import dumped, to_json
from mappa_env.viewer.rows import rows_of
from mappa_env.viewer.run_files import METRICS, env_id, metrics, phases, report, run_folder

EVERY_S = 0.5
"""How often a growing run is read again, at most."""


class Collection:
    """Reads ``path``, which may still grow. ``card``: its id or folder; None: that of the run or trace.

    Thread-safe. Raises DataError if no trace is found.
    """

    def __init__(self, path: str | Path, card: str | None = None) -> None:
        self.path = Path(path)
        self.folder = run_folder(self.path.resolve())
        self._card = card or (env_id(self.folder) if self.folder is not None else None)
        self._traces = Traces(self.path)
        self._lock = threading.Lock()
        self._numbers: dict[tuple[str, str], int] = {}
        self._summaries: list[Summary] = []
        self._changed: list[int] = []
        """The revision in which each of them last changed."""
        self._revision = 0
        self._whole: tuple[int, str] = (0, "")
        """All rows as JSON, and their revision: every page begins with them."""
        self._read_at = time.monotonic()
        self._take()

    def __len__(self) -> int:
        return len(self._summaries)

    @property
    def title(self) -> str:
        """The name of the run's folder, or of the file."""
        return (self.folder or self.path.resolve()).name

    def about(self) -> str:
        """Title and phases, and whether there is a report, as JSON."""
        spent = {} if self.folder is None else phases(self.folder)
        has = report(self.folder) is not None
        return to_json({"title": self.title, "path": str(self.path), "phases": spent, "report": has})

    def report(self) -> str:
        """The report of the run, a page. Raises LookupError if there is none."""
        path = report(self.folder)
        if path is None:
            raise LookupError(self.path)
        return path.read_text(encoding="utf-8")

    def changes(self, since: int) -> str:
        """The rows that changed after the revision ``since`` (0: all), and the revision, as JSON."""
        with self._lock:
            if time.monotonic() - self._read_at > EVERY_S:
                if self._traces.refresh():
                    self._take()
                self._read_at = time.monotonic()
            if since > 0:
                return self._rows(since)
            if self._whole[0] != self._revision:
                self._whole = (self._revision, self._rows(0))
            return self._whole[1]

    def episode(self, number: int) -> str:
        """One episode with everything, as JSON. Raises IndexError for an unknown number, DataError."""
        if not 0 <= number < len(self._summaries):
            raise IndexError(number)
        with self._lock:
            summary = self._summaries[number]
            recorded = self._traces.load(summary)
        return to_json(document(number, summary.file, recorded, blame(recorded.trajectory, self._card)))

    def metrics(self) -> str:
        """The metrics of the run, one object per training step, as JSON."""
        return to_json([] if self.folder is None else metrics(self.folder))

    def _rows(self, since: int) -> str:
        fresh = [
            (number, self._summaries[number])
            for number, revision in enumerate(self._changed)
            if revision > since
        ]
        return dumped({"revision": self._revision, **rows_of(fresh)})

    def _take(self) -> None:
        self._revision += 1
        for summary in self._traces.summaries:
            number = self._numbers.setdefault((summary.file, summary.key), len(self._summaries))
            if number == len(self._summaries):
                self._summaries.append(summary)
                self._changed.append(self._revision)
            elif self._summaries[number] != summary:
                self._summaries[number] = summary
                self._changed[number] = self._revision


def open_collection(path: str | Path, card: str | None = None) -> Collection:
    """As ``Collection``. Raises DataError, with the remedy, for a path that cannot be read."""
    try:
        return Collection(path, card)
    except OSError as error:
        raise DataError(
            f"{path} cannot be read ({error.strerror}): give a trace file, a folder of them, or a run's "
            f"folder with traces/ and, for curves, {METRICS}."
        ) from None
