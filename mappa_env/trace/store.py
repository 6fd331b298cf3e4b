"""The trace store: what programs write episodes with."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mappa_env.cards import Card
from mappa_env.trace.source import described
from mappa_env.trace.writer.client import SHARED, Writer, WriterError
from mappa_env.types import Trajectory


class TraceStore:
    """Appends trajectories to ``path``; the first one creates the file and its folder.

    Another process writes them, one for all stores of a program, so ``append`` returns before an episode is
    in the file. It is there soon after, whatever becomes of this process. ``settle`` and ``close`` wait for
    it, and so do ``Traces`` and ``TraceFile`` of the same program. Thread-safe.

    A name that ends with ``.gz`` asks for compression when the store is closed (``packs`` decides it whatever
    the name). ``card`` and ``about``, such as ``{"phase": "eval"}``, go with every episode. Task truth and
    task files are never written, and keys are replaced (``secrets.py``).
    """

    def __init__(
        self,
        path: str | Path,
        *,
        card: Card | None = None,
        about: Mapping[str, Any] | None = None,
        packs: bool | None = None,
    ) -> None:
        self.path = Path(path)
        self._card = None if card is None else described(card)
        self._about, self._packs = about, packs
        self._process = 0
        self._writer: Writer | None = None
        self._number = 0
        """What the writer knows this store by."""
        self._lock = threading.Lock()

    def append(self, trajectory: Trajectory) -> None:
        """Write one episode.

        Raises OSError or DataError if the file cannot be opened, or if an earlier episode could not be
        written completely (a full disk): that one is lost, this one is not.
        """
        self._after_fork()
        with self._lock:
            try:
                if self._writer is None:
                    writer = SHARED.get()
                    self._number = writer.open(self.path, self._card, self._about, self._packs)
                    self._writer = writer
                self._writer.append(self._number, trajectory)
            except WriterError:
                self._writer = None
                raise

    def settle(self) -> None:
        """Wait until every episode is in the file. Raises OSError, DataError for those that are not."""
        self._after_fork()
        with self._lock:
            try:
                if self._writer is not None:
                    self._writer.settle(self._number)
            except WriterError:
                self._writer = None
                raise

    def close(self) -> None:
        """Settle, and compress the file if it should be; a later ``append`` opens it again.

        Raises as ``settle``.
        """
        self._after_fork()
        with self._lock:
            writer, self._writer = self._writer, None
            if writer is not None:
                writer.close(self._number)

    def _after_fork(self) -> None:
        """A fork has a file of its own, and perhaps a lock that another thread held."""
        if self._process != os.getpid():
            self._process, self._lock, self._writer = os.getpid(), threading.Lock(), None
