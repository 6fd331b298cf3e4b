"""The trace store: trajectories as append-only, versioned JSON lines.

For every episode, a file has one line per action and then one line that closes the episode. A single write
appends them, so many processes may share a file. Task truth and task files are never written.
"""

from __future__ import annotations

import functools
import json
import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter
from pydantic_core import to_json

from mappa_env.errors import DataError
from mappa_env.types import ActionRecord, Attribution, Outcome, Task, Trajectory

VERSION = 1
_TASK = ("id", "prompt", "metric", "compact", "topic", "split")


class TraceStore:
    """Appends trajectories to ``path``; the first one creates the file and its folder."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._file: int | None = None

    def append(self, trajectory: Trajectory) -> None:
        """Write one episode. Raises OSError if it cannot be written completely, as on a full disk."""
        data = encode(trajectory)
        written = os.write(self._open(), data)
        if written != len(data):
            raise OSError(f"{self.path}: only {written} of {len(data)} bytes could be written.")

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _open(self) -> int:
        if self._file is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
            size = os.fstat(self._file).st_size
            if size and os.pread(self._file, 1, size - 1) != b"\n":
                os.write(self._file, b"\n")  # a writer died in mid-line; start a new line
        return self._file


def encode(trajectory: Trajectory) -> bytes:
    """The lines of one episode."""
    to_line = _adapter(ActionRecord).serializer.to_json
    lines = [
        b'{"v":%d,"kind":"action","action":%b}\n' % (VERSION, to_line(action))
        for action in trajectory.actions
    ]
    task = trajectory.task
    closing = {
        "v": VERSION,
        "kind": "episode",
        "env_id": trajectory.env_id,
        "task": {name: getattr(task, name) for name in _TASK},
        "seed": trajectory.seed,
        "settings": dict(trajectory.settings),
        "actions": len(trajectory.actions),
        "outcome": trajectory.outcome,
        "attribution": trajectory.attribution,
    }
    lines.append(to_json(closing, inf_nan_mode="null") + b"\n")
    return b"".join(lines)


def read(path: str | Path) -> Iterator[Trajectory]:
    """The episodes of a file in the order in which they ended; ``task.truth`` and ``task.files`` are empty.

    Skips episodes that a crash left incomplete. Raises DataError for a file of another version or another
    format.
    """
    actions: list[Any] = []
    with open(path, "rb") as file:
        for number, line in enumerate(file, 1):
            row = _row(line)
            if row is None:
                actions = []
                continue
            if row["v"] != VERSION:
                raise DataError(
                    f"{path} line {number} has version {row['v']!r}, but this version of mappa "
                    f"reads {VERSION}: update mappa."
                )
            if row["kind"] == "action":
                actions.append(row.get("action"))
                continue
            attribution = row.get("attribution")
            if isinstance(attribution, dict) and "shares" in attribution:
                raise DataError(
                    f"{path} line {number} has an attribution with 'shares', now called 'fractions': "
                    "read the file with the version that wrote it."
                )
            try:
                mine, actions = actions[len(actions) - row["actions"] :], []
                if len(mine) == row["actions"]:
                    yield _trajectory(row, mine)
            except (KeyError, TypeError, ValueError) as error:
                raise DataError(f"{path} line {number} is not a trajectory: {error!r}") from None


def _trajectory(row: dict[str, Any], actions: list[Any]) -> Trajectory:
    outcome = row["outcome"]
    if outcome is not None:  # JSON has no NaN
        metrics = {name: math.nan if value is None else value for name, value in outcome["metrics"].items()}
        outcome = Outcome(**{**outcome, "metrics": metrics})
    attribution = row.get("attribution")
    return Trajectory(
        env_id=row["env_id"],
        task=Task(**row["task"]),
        seed=row["seed"],
        actions=tuple(_adapter(ActionRecord).validate_python(action) for action in actions),
        outcome=outcome,
        settings=row["settings"],
        attribution=None if attribution is None else _adapter(Attribution).validate_python(attribution),
    )


def _row(line: bytes) -> dict[str, Any] | None:
    try:
        row = json.loads(line)
    except ValueError:
        return None
    return row if isinstance(row, dict) and "kind" in row and "v" in row else None


@functools.cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)
