"""The trace store: what programs write episodes with."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mappa_env.cards import Card
from mappa_env.trace.appending import Appender
from mappa_env.trace.source import described
from mappa_env.types import Trajectory


class TraceStore:
    """Appends trajectories to ``path``; the first one creates the file and its folder.

    ``append`` returns when the episode is in the file. A thread would save nothing: encoding holds the
    interpreter's lock. Thread-safe. A name that ends with ``.gz`` asks for compression when the store is
    closed (``packs`` decides it whatever the name). ``card`` and ``about``, such as ``{"phase": "eval"}``, go
    with every episode. Task truth and task files are never written, and keys are replaced (``secrets.py``).
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
        self._appender: Appender | None = None
        self._lock = threading.Lock()

    def append(self, trajectory: Trajectory) -> None:
        """Write one episode. Raises OSError if it cannot be written completely (a full disk)."""
        if self._process != os.getpid():  # a fork has no file of its own, and perhaps a lock that is held
            self._process, self._lock, self._appender = os.getpid(), threading.Lock(), None
        with self._lock:
            if self._appender is None:
                self._appender = Appender(self.path, card=self._card, about=self._about, packs=self._packs)
            self._appender.append(trajectory)

    def close(self) -> None:
        """Close the file, and compress it if it should be; a later ``append`` opens it again."""
        if self._process != os.getpid():
            return
        with self._lock:
            appender, self._appender = self._appender, None
            if appender is not None:
                appender.close()
