"""Lets a vLLM worker on a CPU compute with weights in the trainer's memory: an update copies them once.

On a CPU vLLM packs the weights of its layers for oneDNN, which takes as long as three copies of them. Here
fp32 layers compute with plain weights instead, with equally fast products (``linear``), and these weights lie
in the trainer's shared memory. vLLM imports this module in its worker, before it creates a model.
"""

from __future__ import annotations

import logging
from collections import Counter
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from safetensors import safe_open
from torch import Tensor, nn
from vllm.distributed.weight_transfer.factory import WeightTransferEngineFactory
from vllm.model_executor.layers import utils

from mappa_rl.engines.vllm.worker import (
    IN_PLACE,
    ReloadEngine,
    SharedMemoryInitInfo,
    SharedMemoryUpdateInfo,
    WorkerExtension,
)
from mappa_rl.engines.weights.digest import digest

_ALIGNED = 64  # bytes
_CPUINFO = Path("/proc/cpuinfo")
_INTEL = _CPUINFO.is_file() and "GenuineIntel" in _CPUINFO.read_text()
_BY_MKL = _INTEL or not torch._C._has_mkldnn
"""Not measured at the start: every run must choose the same, since the rounding differs."""
_log = logging.getLogger(__name__)
_pack = utils.dispatch_cpu_unquantized_gemm


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``x`` [M, in] times ``weight`` [out, in] transposed.

    On Intel's processors by MKL, for 8 to 47 rows with the weight as first operand: 0.7 to 1.1 times the time
    of oneDNN with a packed weight. With other numbers of rows the usual order takes 0.6 to 1.4 times as long.
    On an AMD EPYC MKL takes 2.5 times as long for 8 rows or more; oneDNN with the plain weight takes 1.0 to
    1.9 times as long, for 32 rows 1.3.
    """
    if not _BY_MKL and x.dim() == 2 and len(x) > 1:
        product: Tensor = torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
        return product
    if x.dim() == 2 and 8 <= len(x) < 48:
        product = torch.mm(weight, x.t()).t().contiguous()
        return product if bias is None else product.add_(bias)
    return F.linear(x, weight, bias)


def _dispatch(layer: Any, remove_weight: bool) -> None:
    if layer.weight.ndim == 2 and layer.weight.dtype == torch.float32 and not layer.weight.is_meta:
        layer.cpu_linear = linear
    else:
        _pack(layer, remove_weight)


utils.dispatch_cpu_unquantized_gemm = _dispatch  # layers look it up when their weights are processed


class Layout(NamedTuple):
    """A segment of ``size`` bytes: offsets of vLLM's ``parameters`` and of a checkpoint's ``weights``."""

    size: int
    parameters: dict[str, int]
    weights: dict[str, int]


def find_layout(model: nn.Module, folder: Path) -> Layout | None:
    """Find the tensors of the Hugging Face ``folder`` in the parameters of the model loaded from it.

    Looks for each tensor in the parameter of its name, or after its neighbours in the parameter that vLLM
    packs it into. All values must match in fp32, and the rest of each parameter must be zero. Returns None
    otherwise, for instance if the model is loaded transposed, scattered or quantized.
    """
    parameters = dict(model.named_parameters())
    packed: dict[str, list[str]] = getattr(model, "packed_modules_mapping", {})
    size, begins = 0, {}
    for name, parameter in parameters.items():
        begins[name] = size
        size += -(-parameter.nbytes // _ALIGNED) * _ALIGNED
    weights: dict[str, int] = {}
    filled: Counter[str] = Counter()
    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(path, framework="pt") as file:
            names = set(file.keys())
            for name in names:
                whole, before = _home(name, names, packed)
                start = sum(file.get_tensor(each).numel() for each in before)
                tensor, holder = file.get_tensor(name).flatten().float(), parameters.get(whole)
                if holder is None or holder.dtype != torch.float32 or not holder.is_contiguous():
                    return None
                if not torch.equal(holder.detach().view(-1)[start : start + len(tensor)], tensor):
                    return None
                weights[name] = begins[whole] + start * tensor.itemsize
                filled[whole] += int(tensor.count_nonzero())
    if any(int(parameter.count_nonzero()) != filled[name] for name, parameter in parameters.items()):
        return None
    return Layout(size, begins, weights)


def _home(name: str, names: set[str], packed: dict[str, list[str]]) -> tuple[str, list[str]]:
    """The parameter that a tensor should be in, and the tensors that lie there before it."""
    for joined, parts in packed.items():
        for part in parts:
            if f".{part}." in name:
                before = [name.replace(f".{part}.", f".{each}.") for each in takewhile(part.__ne__, parts)]
                if names.issuperset(before):
                    return name.replace(f".{part}.", f".{joined}."), before
    return name, []


class InPlaceEngine(ReloadEngine):
    """Only digests the weights, which the trainer has written into the model's own memory.

    Reloads a model that has no ``Layout``.
    """

    _in_place = False
    _layout: Layout | None = None

    def layout(self) -> Layout | None:
        """The model's layout or None, found before the first update, while it has the folder's weights."""
        if self._layout is None:
            self._layout = find_layout(self.model, Path(self.model_config.model))
            if self._layout is None:
                _log.warning("Every update reloads this model: vLLM stores its weights differently.")
        return self._layout

    def init_transfer_engine(self, init_info: SharedMemoryInitInfo) -> None:
        """Open the segment and let the model's parameters point into it."""
        super().init_transfer_engine(init_info)
        self._in_place = init_info.in_place
        if not self._in_place:
            return
        layout = self.layout()
        assert layout is not None, "weight_layout was asked first"
        assert self._segment is not None
        memory = torch.frombuffer(self._segment.buf, dtype=torch.uint8)
        for name, parameter in self.model.named_parameters():
            begin = layout.parameters[name]
            place = memory[begin : begin + parameter.nbytes]
            parameter.data = place.view(parameter.dtype).view(parameter.shape)

    def start_weight_update(self) -> None:
        """Forget the last update's digests, or begin a reload."""
        if self._in_place:
            self.digests = {}
        else:
            super().start_weight_update()

    def receive_weights(self, update_info: SharedMemoryUpdateInfo) -> None:
        """Digest one bucket where it lies, or load it."""
        if self._in_place:
            self.digests |= {name: digest(weight) for name, weight in self.read(update_info)}
        else:
            super().receive_weights(update_info)

    def finish_weight_update(self) -> None:
        """Finish the reload, if this update is one."""
        if not self._in_place:
            super().finish_weight_update()

    def shutdown(self) -> None:
        """Close the segment, unless the model computes with it."""
        if not self._in_place:  # else the segment is the model's memory, and goes with the process
            super().shutdown()


class InPlaceExtension(WorkerExtension):
    """The worker's methods, with the layout of its weights."""

    def weight_layout(self) -> dict[str, Any] | None:
        """See ``WorkerExtension.weight_layout``."""
        layout = self.weight_transfer_engine.layout()
        return None if layout is None else {"size": layout.size, "offsets": layout.weights}


WeightTransferEngineFactory.register_engine(IN_PLACE, InPlaceEngine)
