"""The checkpoint of a run that a command works with."""

from __future__ import annotations

from pathlib import Path

from mappa_rl.config import Config
from mappa_rl.errors import RunError


def checkpoint_of(config: Config, run: Path, name: str) -> Path:
    """An intact checkpoint of ``run``: ``latest``, ``best`` or a step. Raises RunError, CheckpointError."""
    if not (run / "checkpoints").is_dir():
        raise RunError(f"{run} has no checkpoint yet: resume it with `mappa-rl train --resume {run}`.")
    from mappa_rl.learner.checkpoint import Checkpoints

    return Checkpoints(run / "checkpoints", config.run.keep_checkpoints).intact(name)


def newest_step(run: Path) -> int:
    """The training step of the newest checkpoint in a run's folder, found without torch; 0 without any.

    Folders with other names, such as ``step-000010-copy``, are no checkpoints of the run.
    """
    steps = (path.parent.name.removeprefix("step-") for path in run.glob("checkpoints/step-*/manifest.json"))
    return max((int(step) for step in steps if step.isdecimal()), default=0)
