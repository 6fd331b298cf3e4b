"""Checkpoints of a whole run: written beside, renamed when complete, so a crash never leaves half of one.

``<root>/step-000010/`` holds ``state.json`` (the trainer's), ``random.json`` (Python, NumPy, torch),
``policies/<name>/`` (a learner: weights, optimizer, schedule, its own random state) with ``model/`` in it (a
plain Hugging Face folder with the tokenizer) and for an adapter ``adapter/`` (PEFT's format), and
``manifest.json``, which lists every file and the score.
``<root>/latest`` names the newest. Loading unpickles optimizer states: load only what you saved yourself.
"""

from __future__ import annotations

import json
import math
import os
import random
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from mappa_rl.errors import CheckpointError
from mappa_rl.learner import Learner
from mappa_rl.lora import is_adapted
from mappa_rl.parallel import SharedLearner

_FORMAT = 1
_NAME = re.compile(r"step-\d{6,}")


class Checkpoints:
    """Checkpoints under ``root``; the ``keep`` newest stay, and the best. One process has them."""

    def __init__(self, root: Path, keep: int = 2) -> None:
        if keep < 1:
            raise CheckpointError(f"keep={keep} checkpoints must be at least 1.")
        self.root, self._keep = root, keep

    def save(
        self,
        step: int,
        learners: Mapping[str, Learner | SharedLearner],
        state: Mapping[str, Any],
        *,
        tokenizers: Mapping[str, Any] | None = None,
        score: float | None = None,
    ) -> Path:
        """Save after training step ``step``. ``state`` is JSON-able; the highest ``score`` is the best."""
        final, staging = self.root / f"step-{step:06d}", self.root / f".tmp-step-{step:06d}"
        for stale in self.root.glob(".tmp-*"):
            stale.unlink() if stale.is_file() else shutil.rmtree(stale)
        staging.mkdir(parents=True)
        for name, learner in learners.items():
            folder = staging / "policies" / name
            folder.mkdir(parents=True)
            learner.save(folder)
            learner.export(folder / "model", (tokenizers or {}).get(name))
            if is_adapted(learner.model):
                learner.export_adapter(folder / "adapter")
        _write(staging / "state.json", state, indent=None)
        _write(staging / "random.json", _random_state())
        self._publish(staging, final, step, score)
        return final

    def latest(self) -> Path | None:
        """The newest complete checkpoint, or None."""
        try:
            named = self.root / (self.root / "latest").read_text(encoding="utf-8").strip()
        except OSError:
            named = self.root
        if _NAME.fullmatch(named.name) and (named / "manifest.json").is_file():
            return named
        complete = self._complete()
        return complete[-1] if complete else None

    def best(self) -> Path | None:
        """The checkpoint with the highest score (the newer of equals), or None where none has one."""
        scores = [(_manifest(path)["score"], path) for path in self._complete()]
        scored = [(score, path) for score, path in scores if score is not None]
        return max(scored)[1] if scored else None

    def find(self, name: str) -> Path:
        """``latest``, ``best`` or a step's number -> that checkpoint. Raises ``CheckpointError``."""
        steps = [str(int(path.name.removeprefix("step-"))) for path in self._complete()]
        if name in ("latest", "best"):
            found = self.latest() if name == "latest" else self.best()
        else:
            found = next((p for p, step in zip(self._complete(), steps, strict=True) if step == name), None)
        if found is None:
            why = " None has a score: train with eval.validation." if name == "best" and steps else ""
            there = ", ".join(steps) or "(none)"
            raise CheckpointError(
                f"{self.root} has no checkpoint {name!r}; there are the steps {there}.{why}"
            )
        return found

    def intact(self, name: str) -> Path:
        """``find``, with every file of the checkpoint there in its full size."""
        path = self.find(name)
        _whole(path)
        return path

    def load(
        self, learners: Mapping[str, Learner | SharedLearner], path: Path | None = None
    ) -> dict[str, Any]:
        """Restore learners and random states, and return the trainer's state. Default: the latest.

        Raises ``CheckpointError``; a file that is missing or cut short is found before anything is restored.
        """
        path = path or self.latest()
        if path is None:
            raise CheckpointError(f"{self.root} holds no checkpoint; start the run anew.")
        manifest = _whole(path)
        if sorted(learners) != sorted(manifest["policies"]):
            raise CheckpointError(
                f"{path} has policies {manifest['policies']}, the run has {sorted(learners)}."
            )
        for name, learner in learners.items():
            learner.load(path / "policies" / name)
        _restore_random(json.loads((path / "random.json").read_text(encoding="utf-8")))
        state: dict[str, Any] = json.loads((path / "state.json").read_text(encoding="utf-8"))
        return state

    def _publish(self, staging: Path, final: Path, step: int, score: float | None) -> None:
        """Flush the staged folder, give it its name, and only then forget older ones."""
        if score is not None and not math.isfinite(score):
            raise CheckpointError(f"score={score} of step {step} must be finite, or None.")
        files = sorted(path for path in staging.rglob("*") if path.is_file())
        policies = staging / "policies"
        _write(
            staging / "manifest.json",
            {
                "format": _FORMAT,
                "step": step,
                "score": score,
                "policies": sorted(path.name for path in policies.iterdir()) if policies.is_dir() else [],
                "files": {str(path.relative_to(staging)): path.stat().st_size for path in files},
            },
        )
        for path in [*staging.rglob("*"), staging]:
            _flush(path)
        if final.exists():  # the same step again, after a resume from an earlier one
            replaced = self.root / f".tmp-replaced-{final.name}"
            final.rename(replaced)
            staging.rename(final)
            shutil.rmtree(replaced)
        else:
            staging.rename(final)
        pointer = self.root / ".tmp-latest"
        pointer.write_text(final.name + "\n", encoding="utf-8")
        _flush(pointer)
        pointer.replace(self.root / "latest")
        _flush(self.root)
        self._prune(final)

    def _prune(self, newest: Path) -> None:
        complete = self._complete()
        spared = {*complete[-self._keep :], newest, self.best()}
        for path in complete:
            if path not in spared:
                shutil.rmtree(path)

    def _complete(self) -> list[Path]:
        """Complete checkpoints, oldest step first."""
        found = [
            path
            for path in self.root.glob("step-*")
            if _NAME.fullmatch(path.name) and (path / "manifest.json").is_file()
        ]
        return sorted(found, key=lambda path: int(path.name.removeprefix("step-")))


def _manifest(path: Path) -> dict[str, Any]:
    try:
        manifest: dict[str, Any] = json.loads((path / "manifest.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path} is no complete checkpoint: {error}") from error
    if manifest.get("format") != _FORMAT:
        raise CheckpointError(f"{path} has format {manifest.get('format')}, this version reads {_FORMAT}.")
    return manifest


def _whole(path: Path) -> dict[str, Any]:
    """The manifest of a checkpoint without missing or cut files."""
    manifest = _manifest(path)
    for name, size in manifest["files"].items():
        found = (path / name).stat().st_size if (path / name).is_file() else None
        if found != size:
            raise CheckpointError(f"{path / name} should have {size} bytes, found {found}: damaged.")
    return manifest


def _write(path: Path, data: Mapping[str, Any], indent: int | None = 1) -> None:
    path.write_text(json.dumps(data, indent=indent), encoding="utf-8")


def _flush(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _random_state() -> dict[str, Any]:
    legacy: Any = np.random.get_state()
    name, keys, position, has_gauss, gauss = legacy
    return {
        "python": random.getstate(),
        "numpy": [name, keys.tolist(), position, has_gauss, gauss],
        "torch": torch.get_rng_state().numpy().tobytes().hex(),
        "cuda": [state.numpy().tobytes().hex() for state in torch.cuda.get_rng_state_all()],
    }


def _restore_random(state: Mapping[str, Any]) -> None:
    version, words, gauss = state["python"]
    random.setstate((version, tuple(words), gauss))
    name, keys, *rest = state["numpy"]
    np.random.set_state((name, np.array(keys, np.uint32), *rest))
    torch.set_rng_state(_bytes(state["torch"]))
    if len(state["cuda"]) == torch.cuda.device_count():
        torch.cuda.set_rng_state_all([_bytes(text) for text in state["cuda"]])


def _bytes(text: str) -> torch.Tensor:
    return torch.frombuffer(bytearray.fromhex(text), dtype=torch.uint8)
