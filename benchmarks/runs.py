"""Runs that benchmarks compare: each in its own process, resumed where it was interrupted."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from mappa_rl.config import Config, load_config
from mappa_rl.config.run_folder import CONFIG


def finished(out: Path, arm: str, seed: int, recipe: str, settings: Sequence[str]) -> Path:
    """The folder of ``arm``'s run in ``out``, which this trains or resumes unless it is finished.

    Exits where the folder holds a run with other settings.
    """
    folder = out / arm / f"seed-{seed}"
    overrides = [f"run.seed={seed}", f"run.out={folder}", *settings]
    begun = (folder / CONFIG).is_file()
    if begun and (other := _differing(load_config(folder / CONFIG), load_config(recipe, overrides))):
        sys.exit(
            f"{folder} holds a run with another {', '.join(other)} than {arm} of {recipe}: move it away, or "
            "name another folder with --out."
        )
    if not (folder / "summary.json").is_file():
        more = ["--resume", str(folder)] if begun else [recipe, *overrides]
        _carried_out([sys.executable, "-m", "mappa_rl.cli", "train", *more])
    return folder


def _differing(one: Config, other: Config) -> list[str]:
    """The keys in which two runs differ; of ``run`` only ``steps`` counts."""
    mine, theirs = one.model_dump(), other.model_dump()
    for each in (mine, theirs):
        each["run"] = {"steps": each["run"]["steps"]}
    return [
        f"{section}.{key}"
        for section in mine
        for key in mine[section]
        if mine[section][key] != theirs[section][key]
    ]


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
