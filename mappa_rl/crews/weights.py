"""The trained weights of a policy, on their way from its crew to the process that plays."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from mappa_rl.models.lora import adapter_names, is_adapted


def packed(model: Any) -> bytes:
    """The trained tensors of ``model`` in safetensors' format, which is read without unpickling."""
    from safetensors.torch import save

    return save({name: each.detach().cpu().contiguous() for name, each in _trained(model).items()})


def unpack(content: bytes, model: Any) -> None:
    """Copy tensors from ``packed`` into a ``model`` of the same shape."""
    from safetensors.torch import load

    found, own = load(content), _trained(model)
    assert found.keys() == own.keys(), "a crew trains another model than the one that plays"
    with torch.no_grad():
        for name, tensor in found.items():
            own[name].copy_(tensor)


def _trained(model: Any) -> dict[str, Tensor]:
    """The adapter's tensors, or all of the model's that are stored on their own."""
    if is_adapted(model):
        return adapter_names(model)
    tied = set(getattr(model, "all_tied_weights_keys", {}) or {})
    return {name: tensor for name, tensor in model.state_dict().items() if name not in tied}
