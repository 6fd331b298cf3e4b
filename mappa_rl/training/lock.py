"""One process at a time works on a run's folder."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

from mappa_env import folder_lock
from mappa_rl.config.run_folder import LOCK
from mappa_rl.errors import RunError


def holder(out: Path) -> str:
    """Which process works on the run in ``out``; empty if none does."""
    return folder_lock.holder(out / LOCK)


def locked(out: Path) -> AbstractContextManager[None]:
    """Hold the folder of a run inside the block. Raises RunError that names the process which holds it."""

    def in_use(holder: str) -> RunError:
        return RunError(
            f"{out} is in use by {holder}: wait for it to end, or stop it with Ctrl-C or SIGTERM, "
            "on which it saves its work."
        )

    return folder_lock.held(out / LOCK, in_use)
