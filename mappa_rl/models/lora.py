"""Policies as LoRA adapters: modules that share one frozen base, each with small weights of its own."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from mappa_rl.errors import PolicyError

_NAME = "policy"
"""What peft calls the adapter: every module has one."""
ADAPTER_FILE = "adapter_model.safetensors"
"""The weights in a folder of PEFT's format."""


class LoraShape(NamedTuple):
    """``rank`` of the update, its factor ``alpha / rank``, and the names of the linear layers it goes to."""

    rank: int
    alpha: int
    targets: Sequence[str]


def adapted(base: nn.Module, shape: LoraShape, seed: int) -> Any:
    """A module that shares the parameters of ``base``, which are frozen, and adds an adapter.

    It computes what ``base`` does until its adapter is trained. The global random state is left as it was.
    Raises ``PolicyError`` where no layer has a name of ``shape.targets``.
    """
    from peft import LoraConfig, inject_adapter_in_model  # seconds, for those who use it

    base.requires_grad_(False)
    shared: dict[int, Any] = {id(tensor): tensor for tensor in (*base.parameters(), *base.buffers())}
    module: Any = copy.deepcopy(base, shared)
    config = LoraConfig(
        r=shape.rank, lora_alpha=shape.alpha, target_modules=list(shape.targets), lora_dropout=0.0
    )
    found = {name.rsplit(".", 1)[-1] for name, part in base.named_modules() if isinstance(part, nn.Linear)}
    unknown = sorted(set(shape.targets) - found)
    if unknown:
        raise PolicyError(f"lora.targets={unknown}: {type(base).__name__} has the layers {sorted(found)}.")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        inject_adapter_in_model(config, module, _NAME)
    dtype = next(base.parameters()).dtype
    for parameter in module.parameters():
        if parameter.requires_grad:
            parameter.data = parameter.data.to(dtype)
    return module


def is_adapted(module: nn.Module) -> bool:
    """Whether ``module`` came from ``adapted``."""
    return any(hasattr(part, "lora_A") for part in module.modules())


def adapter_names(module: nn.Module) -> dict[str, Tensor]:
    """The adapter's own parameters by PEFT's names."""
    return {
        f"base_model.model.{name}.{side}.weight": getattr(layer, side)[_NAME].weight
        for name, layer in _layers(module)
        for side in ("lora_A", "lora_B")
    }


def _layers(module: nn.Module) -> list[tuple[str, Any]]:
    return [(name, part) for name, part in module.named_modules() if hasattr(part, "lora_A")]


def merged(module: nn.Module) -> dict[str, Tensor]:
    """The state dict that ``base`` would have with the adapter's update added to its weights (a copy)."""
    deltas = {f"{name}.weight": layer.get_delta_weight(_NAME) for name, layer in _layers(module)}
    state: dict[str, Tensor] = {}
    for name, value in module.state_dict().items():
        if f".{_NAME}." in name and ".lora_" in name:
            continue
        plain = name.replace(".base_layer.", ".")
        state[plain] = value + deltas[plain] if plain in deltas else value
    return state


def save_adapter(module: nn.Module, folder: Path) -> dict[str, Tensor]:
    """Write the adapter alone, as PEFT does: ``peft.PeftModel.from_pretrained(base, folder)`` reads it.

    Returns its tensors by PEFT's names.
    """
    from peft import LoraConfig
    from safetensors.torch import save_file

    layers = _layers(module)
    state = {name: tensor.detach().contiguous().cpu() for name, tensor in adapter_names(module).items()}
    first = layers[0][1]
    config = LoraConfig(
        r=first.r[_NAME], lora_alpha=first.lora_alpha[_NAME], lora_dropout=0.0, task_type="CAUSAL_LM",
        target_modules=sorted({name.rsplit(".", 1)[-1] for name, _ in layers}), inference_mode=True,
    )  # fmt: skip
    config.save_pretrained(str(folder))
    save_file(state, folder / ADAPTER_FILE, metadata={"format": "pt"})
    return state


def keep_trained(module: nn.Module, state: dict[str, Tensor], prefix: str, _: Any) -> None:
    """State dict hook: forget the frozen base, tied weights under their second name included."""
    trained = {prefix + name for name, parameter in module.named_parameters() if parameter.requires_grad}
    for name in set(state) - trained:
        del state[name]
