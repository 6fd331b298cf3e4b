"""Calls under way, on disk beside the ledger: a killed process leaves what it may have spent.

Each is one line, written before the call is sent and not synchronised: it survives the death of the process,
``kill -9`` too, but not that of the machine. A process locks its file as long as it lives; a fork of it
writes there too, but only the process itself empties or removes the file.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import weakref
from collections.abc import Iterator
from pathlib import Path

from mappa_env.errors import CoachError
from mappa_env.json_and_yaml import read_json

_LONG = 1 << 16
"""Bytes of settled calls, beyond which the file is emptied when nothing is under way."""


class Reservations:
    """The calls under way of one budget. Not thread-safe."""

    def __init__(self, ledger: Path) -> None:
        ledger.parent.mkdir(parents=True, exist_ok=True)
        self._token = secrets.token_hex(8)
        path = ledger.with_name(f".{ledger.name}.{self._token}.open")
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._number, self._size, self._owner = 0, 0, os.getpid()
        self._open: set[str] = set()
        weakref.finalize(self, _close, self._file, path, self._open, self._owner)

    def enter(self, most: float) -> str:
        """Write down that a call of at most ``most`` dollars is sent; returns its id."""
        self._number += 1
        call = f"{self._token}-{os.getpid()}-{self._number}"
        self._size += os.write(self._file, f"{json.dumps({'id': call, 'most': most})}\n".encode())
        self._open.add(call)
        return call

    def settle(self, call: str) -> None:
        """The ledger has the call's line."""
        self._open.discard(call)
        if not self._open and self._size > _LONG and os.getpid() == self._owner:
            os.ftruncate(self._file, 0)
            self._size = 0


def left_by_others(ledger: Path) -> Iterator[tuple[str, float]]:
    """(id, dollars at most) of the calls of processes that are dead; some may be settled.

    Their files are removed when the iteration has come to their end.
    """
    for path in sorted(ledger.parent.glob(f".{ledger.name}.*.open")):
        with path.open("r+b") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:  # its process lives
                continue
            if not os.fstat(file.fileno()).st_nlink:  # another process has just read it
                continue
            for line in file.read().splitlines(keepends=True):
                if line.endswith(b"\n"):  # else it was cut short, so its call was not sent
                    yield _parsed(line, path)
            path.unlink()


def _parsed(line: bytes, path: Path) -> tuple[str, float]:
    try:
        row = read_json(line)
        return str(row["id"]), float(row["most"])
    except (ValueError, KeyError, TypeError) as error:
        raise CoachError(
            f"{path} holds the calls of a process that was killed, but cannot be read ({error}): remove it, "
            "and take what they may have cost from the budget."
        ) from None


def _close(file: int, path: Path, still_open: set[str], owner: int) -> None:
    if not still_open and os.getpid() == owner:
        path.unlink(missing_ok=True)
    os.close(file)
