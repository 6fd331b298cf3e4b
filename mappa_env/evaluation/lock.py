"""One process at a time works on an evaluation's folder."""

from __future__ import annotations

import fcntl
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mappa_env.errors import EvaluationError

LOCK = "lock"


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold ``folder`` inside the block. The lock ends with the process, however that ends.

    Raises EvaluationError that names the process which holds it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / LOCK).open("a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            holder = file.read().strip() or "another process"
            raise EvaluationError(
                f"{folder} is in use by {holder}: wait for it to end, stop it with Ctrl-C, or choose another "
                "--out."
            ) from None
        file.truncate(0)
        file.write(f"process {os.getpid()} on {socket.gethostname()} since {time.strftime('%F %T')}\n")
        file.flush()
        yield
