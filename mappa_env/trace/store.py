"""The trace store: what programs write episodes with."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from mappa_env.cards import Card
from mappa_env.errors import DataError
from mappa_env.trace.appending import pack_alone
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
        self._where = self.path.absolute()  # wherever the program goes
        self._card = None if card is None else described(card)
        self._about = about
        self._packs = self.path.suffix == ".gz" if packs is None else packs
        self._writer: Writer | None = None
        self._number = 0
        """What the writer knows this store by."""
        self._process, self._lock = os.getpid(), threading.RLock()

    def append(self, trajectory: Trajectory) -> None:
        """Write one episode.

        Raises OSError or DataError if the file cannot be opened, or if an earlier episode could not be
        written completely (a full disk): that one is lost, this one is not.
        """
        with self._locked():
            if self._writer is None or self._writer.closed:
                writer = SHARED.get()
                self._number = writer.open(self._where, self._card, self._about)
                self._writer = writer
            try:
                self._writer.append(self._number, trajectory)
            except WriterError:
                self._writer = None
                raise

    def settle(self) -> None:
        """Wait until every episode is in the file. Raises OSError, DataError for those that are not."""
        with self._locked():
            if self._writer is not None and not self._writer.closed:
                self._writer.settle(self._number)

    def close(self) -> None:
        """Settle, and compress the file if it should be; a later ``append`` opens it again.

        Raises as ``settle``.
        """
        with self._locked():
            if self._writer is None:
                return
            try:
                if not self._writer.closed:
                    self._writer.close(self._number)
            except (OSError, DataError):
                self._writer = None
                raise
            self._writer = None
            if self._packs:
                pack_alone(self._where)

    def _locked(self) -> AbstractContextManager[Any]:
        """A fork has no writer yet, and perhaps a lock that another thread held."""
        if self._process != os.getpid():
            self._process, self._lock, self._writer = os.getpid(), threading.RLock(), None
        return self._lock
