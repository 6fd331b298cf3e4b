"""Loads a model's weights from a Hugging Face folder onto this process's device."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn
from transformers import AutoConfig, AutoModelForCausalLM, GenerationConfig
from transformers.utils.logging import disable_progress_bar

from mappa_rl.distributed import device, scatter
from mappa_rl.errors import ConfigError

Precision = Literal["fp32", "bf16"]
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


def load_model(folder: Path, dtype: Precision) -> Any:
    """The whole model, read straight onto the device."""
    disable_progress_bar()  # type: ignore[no-untyped-call]
    return AutoModelForCausalLM.from_pretrained(folder, dtype=DTYPES[dtype], device_map={"": device()})


def load_scattered(folder: Path, dtype: Precision) -> Any:
    """The model of which every process holds a part, for ZeRO stage 3. All processes call it.

    It is built without memory for its weights. They are read one by one, and each is dealt to the processes
    before the next is read, so that no process ever holds more than its part and one whole weight.

    Raises:
        ConfigError: The folder has no safetensors files, or other weights than the model.
    """
    from accelerate import init_empty_weights  # comes with peft
    from transformers.initialization import no_init_weights

    config: Any = AutoConfig.from_pretrained(folder)
    untyped: Any = AutoModelForCausalLM
    with init_empty_weights(include_buffers=False), no_init_weights():
        model = untyped.from_config(config, dtype=DTYPES[dtype])
    model.tie_weights()
    with ExitStack() as stack:
        stored = _Stored(folder, stack)
        for module, key, name, parameter in list(_parameters(model)):
            tensor = stored.read(name, parameter.shape)
            whole = nn.Parameter(tensor.to(device(), DTYPES[dtype]), requires_grad=parameter.requires_grad)
            scatter(whole)
            module.register_parameter(key, whole)
        persistent = model.state_dict()
        for name, buffer in model.named_buffers():
            if name in persistent:
                buffer.copy_(stored.read(name, buffer.shape))
    model.tie_weights()
    if (folder / "generation_config.json").is_file():
        model.generation_config = GenerationConfig.from_pretrained(folder)
    return model.to(device())  # what is left are buffers


class _Stored:
    """The tensors in the safetensors files of ``folder``, which stay open as long as ``stack``."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        from safetensors import safe_open

        self._folder = folder
        self._files: dict[str, Any] = {}
        for path in sorted(folder.glob("*.safetensors")):
            file: Any = stack.enter_context(safe_open(path, framework="pt"))
            self._files |= dict.fromkeys(file.keys(), file)

    def read(self, name: str, shape: torch.Size) -> Tensor:
        if name not in self._files:
            raise ConfigError(
                f"{self._folder} has no weights {name!r} in a *.safetensors file, and optim.zero_stage=3 "
                "reads weights one by one under the model's names: save the model with transformers' "
                "save_pretrained first."
            )
        tensor: Tensor = self._files[name].get_tensor(name)
        if tensor.shape != shape:
            raise ConfigError(
                f"{self._folder}: {name} has the shape {tuple(tensor.shape)}, config.json asks for "
                f"{tuple(shape)}."
            )
        return tensor


def _parameters(model: nn.Module) -> Iterator[tuple[nn.Module, str, str, nn.Parameter]]:
    """Every parameter once, with the module that holds it, its key there and its full name."""
    seen: set[int] = set()
    for prefix, module in model.named_modules():
        for key, parameter in module.named_parameters(recurse=False):
            if id(parameter) not in seen:
                seen.add(id(parameter))
                yield module, key, f"{prefix}.{key}" if prefix else key, parameter
