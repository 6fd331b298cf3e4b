"""Policies as LoRA adapters: modules that share one frozen base and add small weights."""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from mappa_rl.config import Lora
from mappa_rl.errors import PolicyError

_NAME = "policy"
"""peft's name for the one adapter of every module."""
ADAPTER_FILE = "adapter_model.safetensors"
"""The file with the weights of an adapter in PEFT's format."""


def adapted(base: nn.Module, lora: Lora, seed: int) -> Any:
    """A module that shares the frozen parameters of ``base`` and adds an adapter.

    Until its adapter is trained, it computes the same as ``base``. The global random state does not change.
    Raises ``PolicyError`` if a name in ``lora.targets`` matches no layer.
    """
    from peft import LoraConfig, inject_adapter_in_model  # takes seconds, so import it only if it is used

    base.requires_grad_(False)
    shared: dict[int, Any] = {id(tensor): tensor for tensor in (*base.parameters(), *base.buffers())}
    module: Any = copy.deepcopy(base, shared)
    config = LoraConfig(
        r=lora.rank, lora_alpha=lora.alpha, target_modules=list(lora.targets), lora_dropout=0.0
    )
    check_targets(lora, {name for name, _ in layers_for_adapters(base)}, type(base).__name__)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        inject_adapter_in_model(config, module, _NAME)
    dtype = next(base.parameters()).dtype
    for parameter in module.parameters():
        if parameter.requires_grad:
            parameter.data = parameter.data.to(dtype)
    return module


def layers_for_adapters(model: Any) -> Iterator[tuple[str, nn.Linear]]:
    """The linear layers of ``model`` that can get an adapter, by the last part of their names.

    Not a head that shares the embedding's weights: its adapter could not be merged into them.
    """
    embedding = model.get_input_embeddings().weight
    for name, part in model.named_modules():
        if isinstance(part, nn.Linear) and part.weight is not embedding:
            yield name.rsplit(".", 1)[-1], part


def check_targets(lora: Lora, layers: Collection[str], model: str) -> None:
    """Raise ``PolicyError`` if a name in ``lora.targets`` is none of these layers of ``model``."""
    unknown = sorted(set(lora.targets) - set(layers))
    if unknown:
        raise PolicyError(f"lora.targets={unknown}: {model} has the layers {sorted(layers)}.")


def is_adapted(module: nn.Module) -> bool:
    """Whether ``module`` came from ``adapted``."""
    return any(hasattr(part, "lora_A") for part in module.modules())


def adapter_names(module: nn.Module) -> dict[str, Tensor]:
    """The adapter's parameters by PEFT's names."""
    return {
        f"base_model.model.{name}.{side}.weight": getattr(layer, side)[_NAME].weight
        for name, layer in _layers(module)
        for side in ("lora_A", "lora_B")
    }


def _layers(module: nn.Module) -> list[tuple[str, Any]]:
    return [(name, part) for name, part in module.named_modules() if hasattr(part, "lora_A")]


def merged(module: nn.Module) -> dict[str, Tensor]:
    """A copy of the state dict of ``base`` with the adapter's update added to its weights."""
    deltas = {f"{name}.weight": layer.get_delta_weight(_NAME) for name, layer in _layers(module)}
    state: dict[str, Tensor] = {}
    for name, value in module.state_dict().items():
        if f".{_NAME}." in name and ".lora_" in name:
            continue
        plain = name.replace(".base_layer.", ".")
        state[plain] = value + deltas[plain] if plain in deltas else value
    return state


def save_adapter(module: nn.Module, folder: Path) -> dict[str, Tensor]:
    """Write the adapter in PEFT's format, for ``peft.PeftModel.from_pretrained(base, folder)``.

    Returns its tensors by PEFT's names.
    """
    from peft import LoraConfig
    from safetensors.torch import save_file

    layers = _layers(module)
    state = {name: tensor.detach().contiguous().cpu() for name, tensor in adapter_names(module).items()}
    first = layers[0][1]
    config = LoraConfig(
        r=first.r[_NAME],
        lora_alpha=first.lora_alpha[_NAME],
        lora_dropout=0.0,
        task_type="CAUSAL_LM",
        target_modules=sorted({name.rsplit(".", 1)[-1] for name, _ in layers}),
        inference_mode=True,
    )
    config.save_pretrained(str(folder))
    save_file(state, folder / ADAPTER_FILE, metadata={"format": "pt"})
    return state


def keep_trained(module: nn.Module, state: dict[str, Tensor], prefix: str, _: Any) -> None:
    """State dict hook: remove the frozen base, including the second names of tied weights."""
    trained = {prefix + name for name, parameter in module.named_parameters() if parameter.requires_grad}
    for name in set(state) - trained:
        del state[name]
