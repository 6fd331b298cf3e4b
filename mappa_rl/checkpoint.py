"""Checkpoints of a run: written whole or not at all; the newest few are kept."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mappa_rl.learner import Learner

_NAME = re.compile(r"step-([0-9]{6})")


class Checkpoints:
    """``folder/step-000010/<policy>/``: the learner's exact state, and ``model/``, a plain Hugging Face folder."""

    def __init__(self, folder: Path, keep: int = 2) -> None:
        self.folder, self.keep = folder, keep

    @property
    def steps(self) -> list[int]:
        """Training steps that have a whole checkpoint, in order."""
        found = self.folder.iterdir() if self.folder.is_dir() else ()
        return sorted(int(match[1]) for path in found if (match := _NAME.fullmatch(path.name)))

    def save(self, step: int, learners: Mapping[str, Learner], tokenizer: Any) -> Path:
        """Save all learners after training step ``step``; older checkpoints beyond ``keep`` go away."""
        final = self.folder / f"step-{step:06}"
        draft = self.folder / f"{final.name}.new"
        shutil.rmtree(draft, ignore_errors=True)
        for name, learner in learners.items():
            place = draft / name
            place.mkdir(parents=True)
            learner.save(place)
            learner.model.save_pretrained(place / "model")
            tokenizer.save_pretrained(place / "model")
        _sync(draft)
        shutil.rmtree(final, ignore_errors=True)
        draft.rename(final)
        for old in self.steps[: -self.keep]:
            shutil.rmtree(self.folder / f"step-{old:06}")
        return final

    def restore(self, learners: Mapping[str, Learner]) -> int:
        """Load the newest checkpoint and return its step; 0 when there is none. Raises CheckpointError."""
        if not self.steps:
            return 0
        newest = self.steps[-1]
        for name, learner in learners.items():
            learner.load(self.folder / f"step-{newest:06}" / name)
        return newest


def _sync(folder: Path) -> None:
    """Have everything below ``folder`` on the disk before it gets its final name."""
    for path in (*folder.rglob("*"), folder):
        file = os.open(path, os.O_RDONLY)
        try:
            os.fsync(file)
        finally:
            os.close(file)
