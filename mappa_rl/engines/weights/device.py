"""Sends weights to an engine on GPUs, with vLLM's own senders."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from mappa_rl.engines.weights.base import MOST_TRANSFERS, SMALLEST_BUCKET, Receiver, Sent
from mappa_rl.engines.weights.digest import digest


class DeviceSender:
    """Uses the senders of vLLM between processes with GPUs: ``ipc`` on one GPU, ``nccl`` between several.

    ``world`` is the number of the engine's workers; ``address``: of this machine, where they meet this
    process for NCCL. Keeps the last weights in main memory, for a restart of the engine.
    """

    def __init__(self, backend: str, dtype: torch.dtype, world: int, address: str = "127.0.0.1") -> None:
        self._backend, self._dtype, self._world, self._address = backend, dtype, world, address
        self._receiver: Receiver | None = None
        self._engine: Any = None
        self._kept: dict[str, Tensor] = {}

    def connect(self, receiver: Receiver) -> None:
        """See ``Sender.connect``."""
        self._receiver = receiver
        self._drop()

    @property
    def kept(self) -> Mapping[str, Tensor]:
        """See ``Sender.kept``: copies in main memory."""
        return self._kept

    def send(self, weights: Mapping[str, Tensor]) -> Sent:
        """See ``Sender.send``."""
        assert self._receiver is not None, "connect comes first"
        sizes = {name: tensor.numel() * self._dtype.itemsize for name, tensor in weights.items()}
        total, widest = sum(sizes.values()), max(sizes.values())
        # A chunk ends before the tensor that would not fit, so half of the transfers may be half empty.
        bucket = max(SMALLEST_BUCKET, -(-total // (MOST_TRANSFERS // 2 - 1)), widest)
        started = time.perf_counter()
        counted = _Counting(self._receiver)
        source = _Source(weights, self._dtype)
        if self._engine is None:
            self._engine = self._open(counted, source, bucket)
        self._engine.client, self._engine.source = counted, source
        self._engine.send_weights()
        seconds = time.perf_counter() - started
        transfers = counted.updates if self._backend == "ipc" else -(-total // bucket)
        received = self._receiver.ask("received_digests").result()
        digests = {name: digest(tensor) for name, tensor in source}  # on the GPU, as the worker's
        return Sent(total, transfers, seconds, digests, received)

    def keep(self, weights: Mapping[str, Tensor]) -> None:
        """See ``Sender.keep``. Page-locked memory, since a GPU copies to it at full speed."""
        pinned = torch.cuda.is_available()
        for name, tensor in weights.items():
            if name not in self._kept or self._kept[name].shape != tensor.shape:
                self._kept[name] = torch.empty(tensor.shape, dtype=self._dtype, pin_memory=pinned)
            self._kept[name].copy_(tensor, non_blocking=True)
        if pinned:
            torch.cuda.synchronize()

    def _open(self, receiver: Receiver, source: _Source, bucket: int) -> Any:
        from vllm.distributed.weight_transfer import ipc_engine, nccl_engine
        from vllm.utils.network_utils import get_open_port

        if self._backend == "ipc":
            return ipc_engine.IPCTrainerWeightTransferEngine.trainer_init(
                ipc_engine.IPCTrainerInitInfo(rank=0, packed=True, packed_buffer_size_bytes=bucket),
                client=receiver,
                source=source,
            )
        return nccl_engine.NCCLTrainerWeightTransferEngine.trainer_init(
            nccl_engine.NCCLTrainerInitInfo(
                rank=0,
                master_address=self._address,
                master_port=get_open_port(),
                world_size=self._world + 1,
                packed=True,
                packed_buffer_size_bytes=bucket,
            ),
            client=receiver,
            source=source,
        )

    def abort(self) -> None:
        """See ``Sender.abort``: vLLM aborts NCCL's communicator, which ends what waits for it."""
        self._drop()

    def _drop(self) -> None:
        if self._engine is not None:
            self._engine.shutdown()
            self._engine = None

    def close(self) -> None:
        """See ``Sender.close``."""
        self._drop()
        self._kept = {}


class _Meta:
    """Implements a ``ParamMeta`` of vLLM."""

    def __init__(self, name: str, dtype: torch.dtype, shape: tuple[int, ...]) -> None:
        self.name, self.dtype, self.shape = name, dtype, shape


class _Source:
    """Implements a ``WeightSource`` of vLLM: the weights on the GPU in the engine's dtype, one by one."""

    def __init__(self, weights: Mapping[str, Tensor], dtype: torch.dtype) -> None:
        self._weights, self._dtype = weights, dtype

    def metadata(self) -> list[_Meta]:
        return [_Meta(name, self._dtype, tuple(tensor.shape)) for name, tensor in self._weights.items()]

    def __iter__(self) -> Iterator[tuple[str, Tensor]]:
        for name, tensor in self._weights.items():
            yield name, tensor.to("cuda", self._dtype)


class _Counting:
    """A receiver that counts the updates that it passes on."""

    def __init__(self, receiver: Receiver) -> None:
        self._receiver, self.updates = receiver, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._receiver, name)

    def update_weights(self, update_info: Any) -> None:
        self.updates += 1
        self._receiver.update_weights(update_info)
