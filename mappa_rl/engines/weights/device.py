"""Sends weights to an engine on GPUs, with vLLM's own senders."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor

from mappa_rl.engines.weights.base import Receiver, Sent, gpu_bucket
from mappa_rl.engines.weights.digest import digest
from mappa_rl.errors import EngineError
from mappa_rl.futures import in_background


class DeviceSender:
    """Uses the senders of vLLM between processes with GPUs: ``ipc`` on one GPU, ``nccl`` between several.

    ``world`` is the number of the engine's workers; ``address``: of this machine, where they meet this
    process for NCCL. Keeps the last weights in main memory, for a restart of the engine.

    vLLM's senders wait for the workers, also for those that are gone. So they run on a thread, and when the
    receiver fails, the communicator is aborted, which ends them; only a thread that still meets the workers
    for NCCL stays until vLLM gives up, after minutes.
    """

    def __init__(self, backend: str, dtype: torch.dtype, world: int, address: str) -> None:
        self._backend, self._dtype, self._world, self._address = backend, dtype, world, address
        self._receiver: Receiver | None = None
        self._engine: Any = None
        self._changing = threading.Lock()
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
        total = sum(sizes.values())
        bucket = max(gpu_bucket(total), *sizes.values())
        if torch.cuda.is_available():
            torch.cuda.synchronize()  # vLLM reads the weights on streams of its own
        started = time.perf_counter()
        counted, source = _Counting(self._receiver), _Source(weights, self._dtype)
        sending = in_background(partial(self._transfer, counted, source, bucket))
        try:
            wait([sending, counted.failed], return_when=FIRST_COMPLETED)
            if counted.failed.done():
                counted.failed.result()
            sending.result()
        except BaseException:
            source.halted.set()
            self._drop()
            raise
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

    def _transfer(self, receiver: Receiver, source: _Source, bucket: int) -> None:
        engine = self._engine
        if engine is None:
            engine = self._open(receiver, source, bucket)
            with self._changing:
                if source.halted.is_set():
                    engine.shutdown()
                    return
                self._engine = engine
        engine.client, engine.source = receiver, source
        engine.send_weights()

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

    def _drop(self) -> None:
        with self._changing:
            engine, self._engine = self._engine, None
        if engine is not None:
            engine.shutdown()

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
        self.halted = threading.Event()
        """Nobody waits for the weights any more, and the communicator is being freed."""

    def metadata(self) -> list[_Meta]:
        return [_Meta(name, self._dtype, tuple(tensor.shape)) for name, tensor in self._weights.items()]

    def __iter__(self) -> Iterator[tuple[str, Tensor]]:
        for name, tensor in self._weights.items():
            if self.halted.is_set():
                raise EngineError("This update of weights was given up.")
            yield name, tensor.to("cuda", self._dtype)


class _Counting:
    """A receiver that counts the updates that it passes on; ``failed`` raises its first error."""

    def __init__(self, receiver: Receiver) -> None:
        self._receiver, self.updates = receiver, 0
        self.failed: Future[None] = Future()

    def init_weight_transfer_engine(self, init_info: dict[str, Any]) -> None:
        with self._noting():
            self._receiver.init_weight_transfer_engine(init_info)

    def start_weight_update(self) -> None:
        with self._noting():
            self._receiver.start_weight_update()

    def update_weights(self, update_info: Any) -> None:
        self.updates += 1
        with self._noting():
            self._receiver.update_weights(update_info)

    def finish_weight_update(self, weight_version: str | None = None) -> None:
        with self._noting():
            self._receiver.finish_weight_update(weight_version)

    def ask(self, method: str, **options: Any) -> Future[Any]:
        return self._receiver.ask(method, **options)

    @contextmanager
    def _noting(self) -> Iterator[None]:
        try:
            yield
        except BaseException as error:
            if not self.failed.done():
                self.failed.set_exception(error)
            raise
