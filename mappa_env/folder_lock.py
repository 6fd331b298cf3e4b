"""One process at a time works in a folder."""

from __future__ import annotations

import fcntl
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

_UNNAMED = "another process"


@contextmanager
def held(lock: Path, in_use: Callable[[str], Exception]) -> Iterator[None]:
    """Hold the file ``lock`` inside the block, until the process ends at the latest; its folder is made.

    Raises ``in_use(holder)``, with the words that name who holds it.
    """
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("a+", encoding="utf-8", errors="replace") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise in_use(file.read().strip() or _UNNAMED) from None
        file.truncate(0)
        file.write(f"process {os.getpid()} on {socket.gethostname()} since {time.strftime('%F %T')}\n")
        file.flush()
        yield


def holder(lock: Path) -> str:
    """Who holds the file ``lock``; empty if nobody does."""
    try:
        file = lock.open(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return ""
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return file.read().strip() or _UNNAMED
        return ""
