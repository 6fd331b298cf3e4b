"""A cache of calls in SQLite: a replayed run gets the same rewards without a key or a network."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import sqlite3
import threading
import time
from pathlib import Path
from typing import Any

from mappa_env.coach.llm.wire import Passing, Reply, Unanswered, Usage
from mappa_env.errors import CoachError, CoachStopped

FORMAT = 1


def key(**parts: Any) -> str:
    """SHA-256 of everything that an answer depends on."""
    text = json.dumps(parts, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


class CallCache:
    """One file, which several processes may share. ``meta`` identifies the coach of its replies.

    Raises CoachError for a file that is not a cache of replies.
    """

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self.path = path
        self._read_only = read_only
        self._lock = threading.Lock()
        if read_only and not path.is_file():
            raise CoachError(f"{path} does not exist: replay needs the file that a run with cache= wrote.")
        try:
            if not read_only:
                path.parent.mkdir(parents=True, exist_ok=True)
            mode = "ro" if read_only else "rwc"
            self._file = sqlite3.connect(
                f"{path.resolve().as_uri()}?mode={mode}",
                uri=True,
                timeout=60,
                check_same_thread=False,
                isolation_level=None,
            )
            if not read_only:
                self._file.execute("PRAGMA journal_mode=WAL")
                self._file.execute("PRAGMA synchronous=NORMAL")
                self._file.execute("CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT)")
                self._file.execute(
                    "CREATE TABLE IF NOT EXISTS calls (key TEXT PRIMARY KEY, outcome TEXT, at REAL)"
                )
                self._file.execute("INSERT OR IGNORE INTO meta VALUES ('format', ?)", (json.dumps(FORMAT),))
            found = self.meta("format")
        except sqlite3.Error as error:
            raise CoachError(f"{path} is not a cache of replies: {error}") from None
        if found != FORMAT:
            raise CoachError(f"{path} has format {found!r}, but this version of mappa reads format {FORMAT}.")

    def get(self, key: str) -> Reply | None:
        """The reply to the call of that key; None: not recorded. Raises the recorded exception, if any.

        A failed call counts as not recorded, unless this is a recording.
        """
        with self._lock:
            row = self._file.execute("SELECT outcome FROM calls WHERE key = ?", (key,)).fetchone()
        found = None if row is None else json.loads(row[0])
        if found is None or ("failed" in found and not self._read_only):
            return None
        if "failed" in found:
            raise Passing(found["failed"])
        usage = Usage(**found["usage"])
        if "unanswered" in found:
            raise Unanswered(found["unanswered"], usage, found["version"], final=found["final"])
        return Reply(found["text"], usage, found["version"], found["id"])

    def put(self, key: str, outcome: Reply | Unanswered | Passing) -> None:
        """Record how the call of that key ended. Only a failure is overwritten."""
        if isinstance(outcome, Reply):
            row: dict[str, Any] = {"text": outcome.text, "id": outcome.response_id}
        elif isinstance(outcome, Unanswered):
            row = {"unanswered": str(outcome), "final": outcome.final}
        else:
            row = {"failed": str(outcome)}
        if not isinstance(outcome, Passing):
            row |= {"usage": dataclasses.asdict(outcome.usage), "version": outcome.model_version}
        with self._lock:
            self._file.execute(
                "INSERT INTO calls VALUES (?, ?, ?) ON CONFLICT (key) DO UPDATE SET "
                "outcome = excluded.outcome, at = excluded.at WHERE outcome LIKE '{\"failed\"%'",
                (key, json.dumps(row), time.time()),
            )

    def meta(self, name: str) -> Any:
        """The value that ``claim`` stored under ``name``; None: nothing."""
        with self._lock:
            row = self._file.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
        return None if row is None else json.loads(row[0])

    def claim(self, name: str, value: Any) -> None:
        """Store ``value`` permanently. Raises CoachStopped if another value is stored."""
        with self._lock:
            self._file.execute("INSERT OR IGNORE INTO meta VALUES (?, ?)", (name, json.dumps(value)))
        found = self.meta(name)
        if found != value:
            raise CoachStopped(
                f"{self.path} belongs to {name} {found!r}, not {value!r}: use another file for this run."
            )

    def close(self) -> None:
        """Close the file."""
        self._file.close()
