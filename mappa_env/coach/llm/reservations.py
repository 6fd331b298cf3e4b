"""Calls under way, on disk beside the ledger: a killed process leaves what it may have spent.

Each is one line, written before the call is sent and not synchronised: it survives the death of the process,
``kill -9`` too, but not that of the machine. A process locks its file as long as it lives; a fork of it
writes there too, but only the process itself empties or removes the file.
"""

from __future__ import annotations

import contextlib
import fcntl
import glob
import json
import os
import secrets
import weakref
from collections.abc import Iterator
from pathlib import Path

from mappa_env.errors import CoachError
from mappa_env.json_and_yaml import check_amount, read_json

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


@contextlib.contextmanager
def left_by_others(ledger: Path) -> Iterator[list[tuple[str, float]]]:
    """(id, dollars at most) of the calls of processes that are dead; some may be settled.

    Their files are held inside the block, and removed at its end. What the ledger says there of their calls
    is final: nobody else books them. A process that opens the ledger meanwhile does not see them.
    """
    with contextlib.ExitStack() as held:
        found: list[tuple[str, float]] = []
        paths: list[Path] = []
        for path in sorted(ledger.parent.glob(f".{glob.escape(ledger.name)}.*.open")):
            try:
                file = held.enter_context(path.open("r+b"))
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except (FileNotFoundError, BlockingIOError):  # another has just read it, or its process lives
                continue
            if not os.fstat(file.fileno()).st_nlink:
                continue
            paths.append(path)
            for line in file.read().splitlines(keepends=True):
                if line.endswith(b"\n"):  # else it was cut short, so its call was not sent
                    found.append(_parsed(line, path))
        yield found
        for path in paths:
            path.unlink()


def _parsed(line: bytes, path: Path) -> tuple[str, float]:
    try:
        row = read_json(line)
        most = float(row["most"])
        check_amount("most", most)
        return str(row["id"]), most
    except (ValueError, KeyError, TypeError) as error:
        raise CoachError(
            f"{path} holds the calls of a process that was killed, but cannot be read ({error}): remove it, "
            "and take what they may have cost from the budget."
        ) from None


def _close(file: int, path: Path, still_open: set[str], owner: int) -> None:
    if not still_open and os.getpid() == owner:
        path.unlink(missing_ok=True)
    os.close(file)
