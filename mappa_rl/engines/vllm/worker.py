"""What runs inside vLLM's worker processes: the receiving end of weight updates.

vLLM imports this module in every worker (``worker_extension_cls``), which registers the transfer backends and
has the worker end with the run.
All of them go through vLLM's layer-by-layer reload, so that weights are packed, fused and split for tensor
parallelism again just as when the model was first loaded; ``vllm_in_place`` has one that needs no reload.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing.shared_memory import SharedMemory
from typing import Any

import torch
from torch import Tensor
from vllm.distributed.weight_transfer.base import (
    WeightTransferEngine,
    WeightTransferInitInfo,
    WeightTransferUpdateInfo,
)
from vllm.distributed.weight_transfer.factory import WeightTransferEngineFactory
from vllm.distributed.weight_transfer.ipc_engine import IPCWeightTransferEngine
from vllm.distributed.weight_transfer.nccl_engine import NCCLWeightTransferEngine
from vllm.model_executor.model_loader.reload import finalize_layerwise_reload, initialize_layerwise_reload

from mappa_rl.engines.digest import digest
from mappa_rl.engines.owner import watch_owner

EXTENSION = f"{__name__}.WorkerExtension"
IN_PLACE_EXTENSION = "mappa_rl.engines.vllm_in_place.InPlaceExtension"
watch_owner()


class _Digesting(WeightTransferEngine[Any, Any]):
    """Notes a digest of every tensor that an update hands to the model."""

    digests: dict[str, str]

    def start_weight_update(self) -> None:
        self.digests = {}
        load = self.model.load_weights
        self.model.load_weights = lambda weights: load(self._noted(weights))
        super().start_weight_update()

    def finish_weight_update(self) -> None:
        super().finish_weight_update()
        del self.model.load_weights  # the instance's; the class has its own
        repack_tied_head(self.model)

    def _noted(self, weights: Iterable[tuple[str, Tensor]]) -> Iterator[tuple[str, Tensor]]:
        for name, tensor in weights:
            self.digests[name] = digest(tensor)
            yield name, tensor


@dataclass
class SharedMemoryInitInfo(WeightTransferInitInfo):
    """``segment``: name of the POSIX shared memory segment that the trainer writes to.

    ``in_place``: it is laid out like the model, which shall compute with the weights in it.
    """

    segment: str
    in_place: bool = False


@dataclass
class SharedMemoryUpdateInfo(WeightTransferUpdateInfo):
    """One bucket: where in the segment each tensor begins, in bytes, and how to read it."""

    names: list[str]
    dtype: str
    shapes: list[list[int]]
    offsets: list[int]


class SharedMemoryEngine(WeightTransferEngine[SharedMemoryInitInfo, SharedMemoryUpdateInfo]):
    """Reads weights where the trainer, on the same machine, wrote them."""

    init_info_cls = SharedMemoryInitInfo
    update_info_cls = SharedMemoryUpdateInfo
    _segment: SharedMemory | None = None

    def init_transfer_engine(self, init_info: SharedMemoryInitInfo) -> None:
        self.shutdown()
        self._segment = SharedMemory(init_info.segment)

    def start_weight_update(self) -> None:
        initialize_layerwise_reload(self.model)

    def update_weights(self, update_info: dict[str, Any]) -> None:
        self.receive_weights(self.parse_update_info(update_info))
        if self.device.type != "cpu":
            torch.accelerator.synchronize()

    def receive_weights(self, update_info: SharedMemoryUpdateInfo) -> None:
        self.model.load_weights(self.read(update_info))

    def read(self, update_info: SharedMemoryUpdateInfo) -> Iterator[tuple[str, Tensor]]:
        """The named tensors of a bucket, where they lie in the segment."""
        assert self._segment is not None, "init_transfer_engine comes first"
        dtype = getattr(torch, update_info.dtype)
        places = zip(update_info.names, update_info.shapes, update_info.offsets, strict=True)
        for name, shape, offset in places:
            count = max(1, _count(shape))
            flat = torch.frombuffer(self._segment.buf, dtype=dtype, count=count, offset=offset)
            yield name, flat.view(shape)

    def finish_weight_update(self) -> None:
        finalize_layerwise_reload(self.model, self.model_config)

    def shutdown(self) -> None:
        if self._segment is not None:
            self._segment.close()
            self._segment = None


def _count(shape: list[int]) -> int:
    return int(torch.Size(shape).numel())


def repack_tied_head(model: torch.nn.Module) -> None:
    """Pack the output layer again where it is the embedding's weights and a packed copy is computed with.

    On a CPU the copy is made when the layer is processed, and a reload processes the embedding alone.
    """
    head: Any = getattr(model, "lm_head", None)
    if hasattr(head, "cpu_linear"):
        with torch.no_grad():
            head.quant_method.process_weights_after_loading(head)


_LARGE = 256 * 2**10  # bytes; the digest of less is mostly Python, which gains nothing on a thread


class ReloadEngine(_Digesting, SharedMemoryEngine):
    """Has the model load the weights, and takes digests of large ones on a thread meanwhile.

    It may, since the segment stays as it is until the update is over.
    """

    _beside: ThreadPoolExecutor
    _taken: dict[str, Future[str]]

    def start_weight_update(self) -> None:
        self._beside = ThreadPoolExecutor(1, thread_name_prefix="digests")
        self._taken = {}
        super().start_weight_update()

    def finish_weight_update(self) -> None:
        super().finish_weight_update()
        self._beside.shutdown()
        self.digests |= {name: found.result() for name, found in self._taken.items()}

    def _noted(self, weights: Iterable[tuple[str, Tensor]]) -> Iterator[tuple[str, Tensor]]:
        for name, tensor in weights:
            if tensor.nbytes >= _LARGE:
                self._taken[name] = self._beside.submit(digest, tensor)
            else:
                self.digests[name] = digest(tensor)
            yield name, tensor


class _Ipc(_Digesting, IPCWeightTransferEngine):
    pass


class _Nccl(_Digesting, NCCLWeightTransferEngine):
    pass


IN_PLACE = "mappa-in-place"
BACKENDS = {"shm": "mappa-shm", "ipc": "mappa-ipc", "nccl": "mappa-nccl"}
"""What vLLM knows our backends by: its own names are taken by the engines that note no digests."""
for _name, _class in (("shm", ReloadEngine), ("ipc", _Ipc), ("nccl", _Nccl)):
    WeightTransferEngineFactory.register_engine(BACKENDS[_name], _class)


class WorkerExtension:
    """Methods that the trainer calls in every worker (``collective_rpc``)."""

    weight_transfer_engine: Any
    model_runner: Any

    def weight_layout(self) -> dict[str, Any] | None:
        """Size of a segment for the model's weights, and their offsets in it, in bytes; None: it reloads."""
        return None

    def received_digests(self) -> dict[str, str]:
        """Digests of the tensors that the last update handed to the model."""
        return dict(self.weight_transfer_engine.digests)

    def file_digests(self, path: str) -> dict[str, str]:
        """Digests of the tensors in a safetensors file, as this worker reads it."""
        from safetensors.torch import load_file

        return {name: digest(tensor) for name, tensor in load_file(path).items()}

    @torch.inference_mode()
    def held_digests(self) -> dict[str, str]:
        """Digests of the weights that this worker computes with, under vLLM's own names (layers fused).

        A layer that may keep its weights packed is asked for its products with unit vectors: sums of one
        term, hence exact, and the kernel's own answer. That costs a matrix product per layer: for tests.
        """
        found = {}
        for name, layer in self.model_runner.model.named_modules():
            packed = hasattr(layer, "cpu_linear")
            for key, weight in layer.named_parameters(recurse=False):
                if not (packed and key == "weight"):
                    found[f"{name}.{key}"] = digest(weight)
            if packed:
                size, dtype = layer.input_size_per_partition, self.model_runner.model_config.dtype
                found[f"{name}.weight"] = digest(_unpacked(layer, size, dtype))
        return found


def _unpacked(layer: Any, size: int, dtype: torch.dtype) -> Tensor:
    """The weight [out, ``size``] of a packed layer, by its products with the unit vectors."""
    chunks = [
        layer.cpu_linear(torch.eye(size, dtype=dtype)[start : start + 256], layer.weight, None)
        for start in range(0, size, 256)
    ]
    return torch.cat(chunks).t().contiguous() + 0.0  # -0 becomes 0: a sum with other terms loses its sign
