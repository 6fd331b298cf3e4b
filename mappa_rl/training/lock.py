"""One process at a time works on a run's folder."""

from __future__ import annotations

import fcntl
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mappa_rl.config.run_folder import LOCK
from mappa_rl.errors import RunError


def holder(out: Path) -> str:
    """Which process works on the run in ``out``; empty if none does."""
    try:
        file = (out / LOCK).open(encoding="utf-8")
    except FileNotFoundError:
        return ""
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return file.read().strip() or "another process"
        return ""


@contextmanager
def locked(out: Path) -> Iterator[None]:
    """Hold the folder of a run inside the block. The lock ends with the process, however that ends.

    Raises RunError that names the process which holds it.
    """
    out.mkdir(parents=True, exist_ok=True)
    with (out / LOCK).open("a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            holder = file.read().strip() or "another process"
            raise RunError(
                f"{out} is in use by {holder}: wait for it to end, or stop it with Ctrl-C or SIGTERM, "
                "on which it saves its work."
            ) from None
        file.truncate(0)
        file.write(f"process {os.getpid()} on {socket.gethostname()} since {time.strftime('%F %T')}\n")
        file.flush()
        yield
