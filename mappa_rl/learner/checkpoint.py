"""Checkpoints of a whole run, written to a draft folder that is renamed when it is complete.

``<root>/step-000010/`` contains:

* ``state.json``: the trainer's state; ``random.json``: random states of Python, NumPy and torch.
* ``policies/<name>/``: a learner (weights, optimizer, schedule, its own random state), with ``model/``, a
  plain Hugging Face folder with the tokenizer, and ``adapter/`` in PEFT's format if it trains an adapter.
* ``manifest.json``: every file with its size, and the score.

``<root>/latest`` names the newest. Loading unpickles optimizer states: load only what you saved yourself.
"""

from __future__ import annotations

import json
import math
import os
import random
import re
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch

from mappa_env.json_and_yaml import read_json
from mappa_rl.disk import is_full, size_of
from mappa_rl.errors import CheckpointError
from mappa_rl.models.lora import is_adapted

_FORMAT = 1
_RETREAT = "Remove this checkpoint's folder to resume from the one before."
_NAME = re.compile(r"step-\d{6,}")
_REPLACED = ".tmp-replaced-"


class Kept(Protocol):
    """What a checkpoint needs of a learner, in this process or others."""

    @property
    def model(self) -> Any:
        """See ``Learner``."""

    def save(self, folder: Path) -> None:
        """See ``Learner.save``."""

    def load(self, folder: Path) -> None:
        """See ``Learner.load``."""

    def export(self, folder: Path, tokenizer: Any = None) -> None:
        """See ``Learner.export``."""

    def export_adapter(self, folder: Path) -> None:
        """See ``Learner.export_adapter``."""


class Checkpoints:
    """Checkpoints under ``root``; keeps the ``keep`` newest and the best. Only one process uses it.

    ``most_mb``: what they may take together, in MB (1e6 bytes); 0: no limit. Older ones go before a new one
    is written, but never the newest and the best, so these two and a new one may take more.
    """

    def __init__(self, root: Path, keep: int, most_mb: float = 0) -> None:
        if keep < 1:
            raise CheckpointError(f"keep={keep} checkpoints must be at least 1.")
        self.root, self._keep, self._most = root, keep, most_mb * 1_000_000

    def save(
        self,
        step: int,
        learners: Mapping[str, Kept],
        state: Mapping[str, Any],
        *,
        tokenizers: Mapping[str, Any] | None = None,
        score: float | None = None,
        random: Mapping[str, Any] | None = None,
    ) -> Path:
        """Save after training step ``step``; ``state`` is JSON-serialisable.

        The checkpoint with the highest ``score`` is the best one. ``random``: the random states at the end of
        the step; default: those of this moment.
        """
        final, staging = self.root / f"step-{step:06d}", self.root / f".tmp-step-{step:06d}"
        self.recover()
        for stale in self.root.glob(".tmp-*"):
            stale.unlink() if stale.is_file() else shutil.rmtree(stale)
        self._make_room(copies=1)
        staging.mkdir(parents=True)
        try:
            for name, learner in learners.items():
                folder = staging / "policies" / name
                folder.mkdir(parents=True)
                learner.save(folder)
                learner.export(folder / "model", (tokenizers or {}).get(name))
                if is_adapted(learner.model):
                    learner.export_adapter(folder / "adapter")
            _write(staging / "state.json", state, indent=None)
            _write(staging / "random.json", random_state() if random is None else random)
            self._publish(staging, final, step, score)
        except BaseException as error:
            full = isinstance(error, Exception) and is_full(error, self.root)
            shutil.rmtree(staging, ignore_errors=True)  # a full disk must not stay full
            if full:
                latest = self.latest()
                raise CheckpointError(
                    f"The disk of {self.root} is full: step {step} could not be saved, "
                    f"{latest.name if latest else 'no step'} is complete. Free some space, or lower "
                    "run.keep_checkpoints or run.checkpoints_mb, and resume the run with --resume."
                ) from error
            raise
        return final

    def recover(self) -> None:
        """Put back a checkpoint whose replacement a kill interrupted. Only for the process that saves."""
        for replaced in self.root.glob(f"{_REPLACED}step-*"):
            final = self.root / replaced.name.removeprefix(_REPLACED)
            if not final.exists():
                replaced.rename(final)

    def latest(self) -> Path | None:
        """The newest complete checkpoint, or None."""
        try:
            named = self.root / (self.root / "latest").read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError):
            named = self.root
        if _NAME.fullmatch(named.name) and (named / "manifest.json").is_file():
            return named
        complete = self._complete()
        return complete[-1] if complete else None

    def best(self) -> Path | None:
        """The checkpoint with the highest score (ties: the newest); None if none has a score."""
        return _best(self._complete())

    def find(self, name: str) -> Path:
        """The checkpoint ``latest``, ``best``, or that of a step number. Raises ``CheckpointError``."""
        steps = [str(int(path.name.removeprefix("step-"))) for path in self._complete()]
        if name in ("latest", "best"):
            found = self.latest() if name == "latest" else self.best()
        else:
            found = next((p for p, step in zip(self._complete(), steps, strict=True) if step == name), None)
        if found is None:
            why = " None has a score: train with eval.validation_tasks." if name == "best" and steps else ""
            there = ", ".join(steps) or "(none)"
            raise CheckpointError(
                f"{self.root} has no checkpoint {name!r}; steps with a checkpoint: {there}.{why}"
            )
        return found

    def intact(self, name: str) -> Path:
        """See ``find``; also checks that every file is present in its full size."""
        path = self.find(name)
        _whole(path)
        return path

    def load(self, learners: Mapping[str, Kept], path: Path | None = None) -> dict[str, Any]:
        """Restore learners and random states, and return the trainer's state. Default: the latest.

        Missing and truncated files are found before anything is restored. Raises ``CheckpointError``.
        """
        path = path or self.latest()
        if path is None:
            raise CheckpointError(f"{self.root} has no checkpoint: start the run from the beginning.")
        manifest = _whole(path)
        if sorted(learners) != sorted(manifest["policies"]):
            raise CheckpointError(
                f"{path} has policies {manifest['policies']}, but the run has {sorted(learners)}."
            )
        chance, state = (
            _object(path / name, f"{path / name} is damaged") for name in ("random.json", "state.json")
        )
        for name, learner in learners.items():
            learner.load(path / "policies" / name)
        restore_random_state(chance)
        return state

    def _publish(self, staging: Path, final: Path, step: int, score: float | None) -> None:
        """Flush the staged folder, rename it, and only then remove older ones."""
        if score is not None and not math.isfinite(score):
            raise CheckpointError(f"The score of step {step} is {score}; it must be finite, or None.")
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
            replaced = self.root / f"{_REPLACED}{final.name}"
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
        self._make_room(copies=0)

    def _prune(self, newest: Path) -> None:
        complete = self._complete()
        spared = {*complete[-self._keep :], newest, _best(path for path in complete if _readable(path))}
        for path in complete:
            if path not in spared:
                shutil.rmtree(path)

    def _make_room(self, copies: int) -> None:
        """Remove older checkpoints until so many more like the newest fit under the limit."""
        complete = self._complete()
        if not self._most or not complete:
            return
        sizes = {path: size_of(path) for path in complete}
        best = _best(path for path in complete if _readable(path))
        coming, spared = copies * sizes[complete[-1]], {self.latest(), best}
        for path in complete:
            if sum(sizes.values()) + coming > self._most and path not in spared:
                shutil.rmtree(path)
                del sizes[path]

    def _complete(self) -> list[Path]:
        """Complete checkpoints, oldest step first."""
        found = [
            path
            for path in self.root.glob("step-*")
            if _NAME.fullmatch(path.name) and (path / "manifest.json").is_file()
        ]
        return sorted(found, key=lambda path: int(path.name.removeprefix("step-")))


def _best(paths: Iterable[Path]) -> Path | None:
    scores = [(_manifest(path)["score"], path) for path in paths]
    scored = [(score, path) for score, path in scores if score is not None]
    return max(scored)[1] if scored else None


def _readable(path: Path) -> bool:
    """Whether its manifest is; a damaged checkpoint must not keep a new one from being saved."""
    try:
        _manifest(path)
    except CheckpointError:
        return False
    return True


def _object(path: Path, otherwise: str) -> dict[str, Any]:
    """The JSON object in a file. Raises CheckpointError, which begins with ``otherwise``."""
    try:
        found = read_json(path.read_bytes())
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{otherwise}: {error}. {_RETREAT}") from error
    if not isinstance(found, dict):
        raise CheckpointError(f"{otherwise}: {path.name} holds {found!r:.80}. {_RETREAT}")
    return found


def _manifest(path: Path) -> dict[str, Any]:
    manifest = _object(path / "manifest.json", f"{path} is not a complete checkpoint")
    if manifest.get("format") != _FORMAT:
        raise CheckpointError(
            f"{path} has format {manifest.get('format')}, but this version of mappa reads {_FORMAT}."
        )
    if not {"files", "score"} <= manifest.keys() or not isinstance(manifest["files"], dict):
        raise CheckpointError(f"{path} is not a complete checkpoint: its manifest lacks files or a score.")
    return manifest


def _whole(path: Path) -> dict[str, Any]:
    """The manifest of a checkpoint. Raises CheckpointError if a file is missing or has another size."""
    manifest = _manifest(path)
    for name, size in manifest["files"].items():
        found = (path / name).stat().st_size if (path / name).is_file() else None
        if found != size:
            raise CheckpointError(
                f"{path / name} is damaged: it should have {size} bytes, found {found}. {_RETREAT}"
            )
    return manifest


def _write(path: Path, data: Mapping[str, Any], indent: int | None = 1) -> None:
    path.write_text(json.dumps(data, indent=indent), encoding="utf-8")


def _flush(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def random_state() -> dict[str, Any]:
    """The global random states of Python, NumPy and torch, JSON-serialisable."""
    legacy: Any = np.random.get_state()
    name, keys, position, has_gauss, gauss = legacy
    return {
        "python": random.getstate(),
        "numpy": [name, keys.tolist(), position, has_gauss, gauss],
        "torch": torch.get_rng_state().numpy().tobytes().hex(),
        "cuda": [state.numpy().tobytes().hex() for state in torch.cuda.get_rng_state_all()],
    }


def restore_random_state(state: Mapping[str, Any]) -> None:
    """Undo everything random since ``random_state``."""
    version, words, gauss = state["python"]
    random.setstate((version, tuple(words), gauss))
    name, keys, *rest = state["numpy"]
    np.random.set_state((name, np.array(keys, np.uint32), *rest))
    torch.set_rng_state(_bytes(state["torch"]))
    if len(state["cuda"]) == torch.cuda.device_count():
        torch.cuda.set_rng_state_all([_bytes(text) for text in state["cuda"]])


def _bytes(text: str) -> torch.Tensor:
    return torch.frombuffer(bytearray.fromhex(text), dtype=torch.uint8)
