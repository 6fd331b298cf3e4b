"""Runs that benchmarks compare: each in its own process, resumed where it was interrupted."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path


def finished(out: Path, arm: str, seed: int, recipe: str, settings: Sequence[str]) -> Path:
    """The folder of ``arm``'s run in ``out``, which this trains or resumes unless it is finished."""
    folder = out / arm / f"seed-{seed}"
    if (folder / "summary.json").is_file():
        return folder
    command = [sys.executable, "-m", "mappa_rl.cli", "train"]
    if (folder / "config.yaml").is_file():
        command += ["--resume", str(folder)]
    else:
        command += [recipe, f"run.seed={seed}", f"run.out={folder}", *settings]
    _carried_out(command)
    return folder


def _carried_out(command: Sequence[str]) -> None:
    """Run ``command``, which also hears a SIGTERM that ends this program. Raises CalledProcessError."""
    with subprocess.Popen(command) as process:
        before = signal.signal(signal.SIGTERM, lambda number, _: process.send_signal(number))
        try:
            code = process.wait()
        finally:
            signal.signal(signal.SIGTERM, before)
    if code:
        raise subprocess.CalledProcessError(code, command)


def begins(out: Path, arm: str, seed: int, base: str, start: Path | None) -> list[str]:
    """The settings with which ``arm`` begins where all arms of a seed do.

    That is the warm start in ``start``, or that of the arm ``base`` if it is None.
    """
    if start is None and arm != base:
        start = out / base / f"seed-{seed}" / "warmstart"
    return [f"warmstart.path={start.resolve()}"] if start else []
