# mypy: disallow-subclassing-any
"""Code that runs inside vLLM's worker processes: the receiving end of weight updates.

vLLM imports this module in every worker (``worker_extension_cls``). The import registers the transfer
backends and makes the worker end with the run. All backends use vLLM's layer-by-layer reload, which packs,
fuses and splits weights for tensor parallelism as the first load does; ``in_place`` has one without a reload.
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

from mappa_rl.engines.vllm.owner import watch_owner
from mappa_rl.engines.weights.digest import digest

EXTENSION = f"{__name__}.WorkerExtension"
IN_PLACE_EXTENSION = "mappa_rl.engines.vllm.in_place.InPlaceExtension"
ADAPTERS_EXTENSION = "mappa_rl.engines.vllm.adapters.AdaptersExtension"
watch_owner()


class _Digesting(WeightTransferEngine[Any, Any]):  # type: ignore[misc]  # vLLM is untyped
    """Records a digest of every tensor that an update passes to the model."""

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
class SharedMemoryInitInfo(WeightTransferInitInfo):  # type: ignore[misc]  # vLLM is untyped
    """``segment``: name of the POSIX shared memory segment that the trainer writes to.

    ``in_place``: the segment is laid out like the model, which computes with the weights in it.
    """

    segment: str
    in_place: bool = False


@dataclass
class SharedMemoryUpdateInfo(WeightTransferUpdateInfo):  # type: ignore[misc]  # vLLM is untyped
    """One bucket: names, dtype and shapes of its tensors, and their offsets in the segment in bytes."""

    names: list[str]
    dtype: str
    shapes: list[list[int]]
    offsets: list[int]


class SharedMemoryEngine(
    WeightTransferEngine[SharedMemoryInitInfo, SharedMemoryUpdateInfo]  # type: ignore[misc]  # vLLM is untyped
):
    """Reads weights where the trainer, on the same machine, wrote them."""

    init_info_cls = SharedMemoryInitInfo
    update_info_cls = SharedMemoryUpdateInfo
    _segment: SharedMemory | None = None

    def init_transfer_engine(self, init_info: SharedMemoryInitInfo) -> None:
        """Open the trainer's segment; an earlier one is closed."""
        self.shutdown()
        self._segment = SharedMemory(init_info.segment)

    def start_weight_update(self) -> None:
        """Begin a layer-by-layer reload."""
        initialize_layerwise_reload(self.model)

    def update_weights(self, update_info: dict[str, Any]) -> None:
        """Load one bucket and wait for the device."""
        self.receive_weights(self.parse_update_info(update_info))
        if self.device.type != "cpu":
            torch.accelerator.synchronize()

    def receive_weights(self, update_info: SharedMemoryUpdateInfo) -> None:
        """Load one bucket into the model."""
        self.model.load_weights(self.read(update_info))

    def read(self, update_info: SharedMemoryUpdateInfo) -> Iterator[tuple[str, Tensor]]:
        """Yield the named tensors of a bucket as views of the segment."""
        assert self._segment is not None, "init_transfer_engine comes first"
        dtype = getattr(torch, update_info.dtype)
        places = zip(update_info.names, update_info.shapes, update_info.offsets, strict=True)
        for name, shape, offset in places:
            count = max(1, _count(shape))
            flat = torch.frombuffer(self._segment.buf, dtype=dtype, count=count, offset=offset)
            yield name, flat.view(shape)

    def finish_weight_update(self) -> None:
        """Finish the reload: pack, fuse and split the layers."""
        finalize_layerwise_reload(self.model, self.model_config)

    def shutdown(self) -> None:
        """Close the segment. May be called twice."""
        if self._segment is not None:
            self._segment.close()
            self._segment = None


def _count(shape: list[int]) -> int:
    return int(torch.Size(shape).numel())


def repack_tied_head(model: torch.nn.Module) -> None:
    """Pack the output layer again if it shares the embedding's weights and computes with a packed copy.

    On a CPU processing a layer makes the copy, and a reload processes only the embedding.
    """
    head: Any = getattr(model, "lm_head", None)
    if hasattr(head, "cpu_linear"):
        with torch.no_grad():
            head.quant_method.process_weights_after_loading(head)


_LARGE = 256 * 2**10  # bytes; the digest of less is mostly Python, which gains nothing on a thread


class ReloadEngine(_Digesting, SharedMemoryEngine):
    """Lets the model load the weights while a thread digests the large ones.

    This is safe because the segment does not change until the update is over.
    """

    _beside: ThreadPoolExecutor
    _taken: dict[str, Future[str]]

    def start_weight_update(self) -> None:
        """Begin a reload, and start the thread for digests."""
        self._beside = ThreadPoolExecutor(1, thread_name_prefix="digests")
        self._taken = {}
        super().start_weight_update()

    def finish_weight_update(self) -> None:
        """Finish the reload and collect all digests."""
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


class _Ipc(_Digesting, IPCWeightTransferEngine):  # type: ignore[misc]  # vLLM is untyped
    pass


class _Nccl(_Digesting, NCCLWeightTransferEngine):  # type: ignore[misc]  # vLLM is untyped
    pass


IN_PLACE = "mappa-in-place"
BACKENDS = {"shm": "mappa-shm", "ipc": "mappa-ipc", "nccl": "mappa-nccl"}
"""Our backends' names in vLLM, whose own names belong to engines without digests."""
for _name, _class in (("shm", ReloadEngine), ("ipc", _Ipc), ("nccl", _Nccl)):
    WeightTransferEngineFactory.register_engine(BACKENDS[_name], _class)


class WorkerExtension:
    """Methods that the trainer calls in every worker (``collective_rpc``)."""

    weight_transfer_engine: Any
    model_runner: Any

    def weight_layout(self) -> dict[str, Any] | None:
        """Size of the segment and offsets of the weights in it, in bytes; None: this worker reloads."""
        return None

    def received_digests(self) -> dict[str, str]:
        """Digests of the tensors that the last update passed to the model."""
        return dict(self.weight_transfer_engine.digests)

    def file_digests(self, path: str) -> dict[str, str]:
        """Digests of the tensors in a safetensors file, as this worker reads it."""
        from safetensors.torch import load_file

        return {name: digest(tensor) for name, tensor in load_file(path).items()}

    @torch.inference_mode()
    def held_digests(self) -> dict[str, str]:
        """Digests of the weights that this worker computes with, under vLLM's own names (layers fused).

        For a layer that may keep its weights packed, multiplies by unit vectors: these sums have one term and
        are exact. That costs a matrix product per layer, so use it only in tests.
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
