"""How far a run of another process is."""

from __future__ import annotations

import time
from pathlib import Path

from mappa_rl.commands.checkpoint import newest_step

LIMIT_S = 150.0
"""Seconds that a small run may take to its next checkpoint."""


def until_step(out: Path, step: int) -> None:
    """Wait until the run has saved that step."""
    until = time.monotonic() + LIMIT_S
    while newest_step(out) < step:
        assert time.monotonic() < until
        time.sleep(0.05)
