"""The weights of a checkpoint for policies that only play: read from safetensors, without unpickling."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from safetensors.torch import load_file
from torch import Tensor

from mappa_rl.errors import CheckpointError
from mappa_rl.models.lora import ADAPTER_FILE, adapter_names, is_adapted
from mappa_rl.rollout.policies import Policies


def load_trained(policies: Policies, checkpoint: Path) -> None:
    """Give every trained policy, and its engine, the weights of a checkpoint that is ``intact``.

    Works for any number of processes that saved it. Raises CheckpointError if the weights do not fit.
    """
    for name in policies.map.trainable:
        model: Any = policies[name].model
        folder = checkpoint / "policies" / name
        if is_adapted(model):
            own, found = adapter_names(model), _read([folder / "adapter" / ADAPTER_FILE])
        else:
            own = model.state_dict()
            found = _read(sorted((folder / "model").glob("*.safetensors")))
        tied = set(getattr(model, "all_tied_weights_keys", {}) or {})
        wrong = sorted(
            k for k in {*own, *found} if k not in tied and _shape(own.get(k)) != _shape(found.get(k))
        )
        if not found or wrong:
            raise CheckpointError(f"{folder} does not fit this model: {wrong[:3] or 'it holds no weights'}.")
        for key, tensor in found.items():
            own[key].detach().copy_(tensor)
    policies.sync(json.loads((checkpoint / "state.json").read_text(encoding="utf-8"))["step"])


def _read(paths: list[Path]) -> dict[str, Tensor]:
    return {name: tensor for path in paths if path.is_file() for name, tensor in load_file(path).items()}


def _shape(tensor: Tensor | None) -> tuple[int, ...] | None:
    return None if tensor is None else tuple(tensor.shape)
