"""One process at a time works on an evaluation's folder."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

from mappa_env.errors import EvaluationError
from mappa_env.folder_lock import held

LOCK = "lock"


def locked(folder: Path) -> AbstractContextManager[None]:
    """Hold ``folder`` inside the block. Raises EvaluationError that names the process which holds it."""

    def in_use(holder: str) -> EvaluationError:
        return EvaluationError(
            f"{folder} is in use by {holder}: wait for it to end, stop it with Ctrl-C, or choose another "
            "--out."
        )

    return held(folder / LOCK, in_use)
