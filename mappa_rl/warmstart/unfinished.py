"""A warm start under way: saved in the run's folder, and continued when the run is resumed."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

from mappa_rl.learner.checkpoint import Checkpoints
from mappa_rl.learner.learner import Learner
from mappa_rl.stopping import LIMIT_S, Stopping

FOLDER = "warmstart.unfinished"
SAVE_EVERY_S = 300.0
"""Seconds of imitation that the loss of a process may cost: a save takes some, and 12 bytes a parameter."""


def updates_in(out: Path) -> int:
    """Updates that an earlier session of the run in ``out`` saved."""
    latest = Checkpoints(out / FOLDER, keep=1).latest()
    return int(latest.name.removeprefix("step-")) if latest else 0


def discard(out: Path) -> None:
    """Remove what the run in ``out`` no longer needs once its warm start is whole."""
    shutil.rmtree(out / FOLDER, ignore_errors=True)


class Unfinished:
    """The learner of a warm start in the folder of the run ``out``, as it was when an earlier session ended.

    ``checks``: success rate at each step that was checked; it gets those of before. Inside a ``with`` block
    SIGINT and SIGTERM wait for the end of an update, as in training, and save what was learned. Raises
    CheckpointError if what was saved cannot be read.
    """

    def __init__(self, out: Path, learner: Learner, checks: dict[int, float]) -> None:
        self._store, self._learner, self._checks = Checkpoints(out / FOLDER, keep=1), _Bare(learner), checks
        self._stopping, self._is_whole = Stopping(limit_s=LIMIT_S), True
        if self._store.latest() is not None:
            state = self._store.load({"imitator": self._learner})
            checks.update({int(step): rate for step, rate in state["checks"]})
        self._saved_at = time.monotonic()

    def __enter__(self) -> Unfinished:
        self._stopping.__enter__()
        self._hold()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if isinstance(error, KeyboardInterrupt) and self._is_whole and self._learner.updates:
                self._stopping.hold(patient=True)
                self._save()
        finally:
            self._stopping.__exit__(kind, error, trace)

    def updated(self) -> None:
        """An update is complete: save it if it is time. Raises KeyboardInterrupt where one was asked for."""
        with self.between():
            if time.monotonic() - self._saved_at >= SAVE_EVERY_S:
                self._save()

    @contextmanager
    def between(self) -> Iterator[None]:
        """Between two updates signals are heard at once."""
        self._is_whole = True
        self._stopping.release()
        yield
        self._hold()

    def _hold(self) -> None:
        self._stopping.hold()
        self._is_whole = False

    def _save(self) -> None:
        state = {"checks": sorted(self._checks.items())}
        self._store.save(self._learner.updates, {"imitator": self._learner}, state)
        self._saved_at = time.monotonic()


class _Bare:
    """A learner whose checkpoints hold no model to export."""

    def __init__(self, learner: Learner) -> None:
        self._learner = learner
        self.model: Any = learner.model
        self.save, self.load = learner.save, learner.load

    @property
    def updates(self) -> int:
        return self._learner.updates

    def export(self, folder: Path, tokenizer: Any = None) -> None:
        """Nothing plays with it."""

    def export_adapter(self, folder: Path) -> None:
        """Nothing plays with it."""
