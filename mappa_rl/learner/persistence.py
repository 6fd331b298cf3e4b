"""A learner on disk: its exact state to resume from, and its model in standard formats."""

from __future__ import annotations

import json
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from mappa_rl.distributed import gathered, world
from mappa_rl.errors import CheckpointError
from mappa_rl.models.lora import is_adapted, merged, save_adapter

_UNREADABLE = (RuntimeError, OSError, EOFError, KeyError, ValueError, pickle.UnpicklingError)
"""What torch raises for files of other models, and for damaged ones."""


class Position(NamedTuple):
    """Where a learner stands, the same in all processes.

    ``updates``: their number; ``skipped``: those not applied since the last that was, as their gradients were
    not finite; ``random``: state of the generator that draws minibatches.
    """

    updates: int
    skipped: int
    random: Mapping[str, Any]


class Persistence:
    """Saves, restores and exports one learner. All processes call every method."""

    def __init__(self, engine: Any, model: Any, *, zero_stage: int, critic: bool) -> None:
        self._engine, self._model = engine, model
        self._stage, self._critic = zero_stage, critic
        self._adapted = is_adapted(model)

    def save(self, folder: Path, position: Position) -> None:
        """Write trainable weights, optimizer and position."""
        self._engine.save_checkpoint(
            str(folder), tag="engine", save_latest=False, exclude_frozen_parameters=self._adapted
        )
        if world()[0] == 0:
            state = {
                **position._asdict(),
                "zero_stage": self._stage,
                "processes": world()[1],
                "adapter": self._adapter(),
                "critic": self._critic,
            }
            (folder / "learner.json").write_text(json.dumps(state), encoding="utf-8")

    def load(self, folder: Path) -> Position:
        """Restore weights and optimizer; return the position.

        Raises:
            CheckpointError: The folder has no readable learner, or one that does not fit this learner.
        """
        state = self._state(folder)
        try:
            found, _ = self._engine.load_checkpoint(
                str(folder), tag="engine", load_module_strict=not self._adapted
            )
        except _UNREADABLE as error:
            if isinstance(error, RuntimeError) and "PytorchStream" not in str(error):
                raise CheckpointError(f"{folder} does not fit this model: {error}") from error
            raise CheckpointError(
                f"{folder} cannot be read ({error or type(error).__name__}). Remove the checkpoint's folder "
                "to resume from the one before."
            ) from error
        if found is None:
            raise CheckpointError(f"{folder} has no readable engine state.")
        random = state["random"]
        if isinstance(random, list):  # older checkpoints have one of each process
            random = random[0]
        return Position(state["updates"], state.get("skipped", 0), random)

    def export(self, folder: Path, tokenizer: Any = None) -> None:
        """Write a plain Hugging Face folder, with the tokenizer if given; an adapter is merged."""
        with gathered(self._model):
            if world()[0] == 0:
                state = merged(self._model) if self._adapted else None
                self._model.save_pretrained(folder, state_dict=state)
                if tokenizer is not None:
                    tokenizer.save_pretrained(folder)

    def export_adapter(self, folder: Path) -> None:
        """Write the adapter as a PEFT folder."""
        with gathered(self._model):
            if world()[0] == 0:
                save_adapter(self._model, folder)

    def _state(self, folder: Path) -> dict[str, Any]:
        """The saved ``learner.json``, if it fits this learner."""
        try:
            state: dict[str, Any] = json.loads((folder / "learner.json").read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise CheckpointError(f"{folder} does not contain a learner: {error}") from error
        if state["zero_stage"] != self._stage:
            raise CheckpointError(
                f"{folder} was saved with zero_stage={state['zero_stage']}, not {self._stage}: use the same."
            )
        if self._stage and state["processes"] != world()[1]:
            raise CheckpointError(
                f"{folder} was saved by {state['processes']} processes, not {world()[1]}, and each has a "
                "part of the optimizer: use the same run.processes. It can change where optim.zero_stage=0."
            )
        if state.get("adapter") != self._adapter():
            raise CheckpointError(f"{folder} does not fit this model: it has another adapter, or none.")
        if state.get("critic", False) != self._critic:
            raise CheckpointError(
                f"{folder} was saved {'without' if self._critic else 'with'} a critic, by another algorithm. "
                "Use the same algo.name."
            )
        return state

    def _adapter(self) -> dict[str, list[int]] | None:
        """Shapes of an adapter's parameters by name; None if the whole model is trained."""
        named = ((name, p) for name, p in self._model.named_parameters() if p.requires_grad)
        return {name: list(getattr(p, "ds_shape", p.shape)) for name, p in named} if self._adapted else None
