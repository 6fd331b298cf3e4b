"""Sending the learner's weights to an engine in another process, in few and large pieces.

The engine's side is ``mappa_rl.engines.vllm_worker``. Three ways, of which ``backend_for`` picks one: through
shared memory (``shm``, on CPUs), by handles to memory of the GPU that both use (``ipc``), or between GPUs
(``nccl``); the last two are vLLM's own senders.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path
from shutil import disk_usage
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from mappa_rl.engines.digest import combined, digest
from mappa_rl.errors import EngineError

MOST_TRANSFERS = 16
_ALIGNED = 64  # bytes
_SMALLEST_BUCKET = 16 * 2**20  # bytes; below, a transfer costs more than its bytes


@dataclass(frozen=True, slots=True)
class SyncStats:
    """What updates of engines' weights cost: ``bytes`` sent in ``transfers``.

    ``seconds`` of wall time until digests were compared, ``moving`` of them until the engine had the weights.
    ``checksum`` is one over all tensors, by name, that the engine's workers handed to their model; it was
    compared with the trainer's own, tensor by tensor.
    """

    bytes: int = 0
    transfers: int = 0
    seconds: float = 0.0
    moving: float = 0.0
    checksum: str = ""

    def __add__(self, other: SyncStats) -> SyncStats:
        return SyncStats(
            self.bytes + other.bytes,
            self.transfers + other.transfers,
            self.seconds + other.seconds,
            self.moving + other.moving,
            f"{self.checksum} {other.checksum}".strip(),
        )


class Receiver(Protocol):
    """An engine's side of an update; the first four are what vLLM's senders call, and wait for."""

    def init_weight_transfer_engine(self, init_info: dict[str, Any]) -> None: ...

    def start_weight_update(self) -> None: ...

    def update_weights(self, update_info: Any) -> None: ...

    def finish_weight_update(self, weight_version: str | None = None) -> None: ...

    def ask(self, method: str, **options: Any) -> Future[Any]:
        """Call a method in every worker without waiting; workers take calls in the order of asking."""
        ...


@dataclass(frozen=True, slots=True)
class Sent:
    """What one ``Sender.send`` sent, and after how many ``seconds`` the engine had it.

    ``digests`` are of the learner's tensors in the engine's dtype, ``received`` of what every worker of the
    engine handed to its model.
    """

    bytes: int
    transfers: int
    seconds: float
    digests: dict[str, str]
    received: list[dict[str, str]]


class Sender(Protocol):
    """One way of sending. ``connect`` comes first, and again when the engine's process is another one."""

    def connect(self, receiver: Receiver) -> None: ...

    def send(self, weights: Mapping[str, Tensor]) -> Sent:
        """Send all weights. They stay readable in ``kept``."""
        ...

    @property
    def kept(self) -> Mapping[str, Tensor]:
        """What was sent last, apart from the learner's own tensors."""
        ...

    def close(self) -> None: ...


def push(weights: Mapping[str, Tensor], sender: Sender) -> SyncStats:
    """Send ``weights`` and compare checksums. Raises ``EngineError`` where they differ."""
    started = time.perf_counter()
    sent = sender.send(weights)
    right = sent.digests
    for rank, received in enumerate(sent.received):
        wrong = sorted(name for name in {*right, *received} if right.get(name) != received.get(name))
        if wrong:
            raise EngineError(
                f"Worker {rank} of the engine received other weights than were sent: {wrong[:3]} and "
                f"{max(0, len(wrong) - 3)} more. Memory or transport is faulty: do not use this engine."
            )
    whole = time.perf_counter() - started
    return SyncStats(sent.bytes, sent.transfers, whole, sent.seconds, combined(right))


def named_weights(source: nn.Module | Mapping[str, Tensor]) -> dict[str, Tensor]:
    """All weights of a module or state dict, tied ones once, under their first name."""
    state = source.state_dict() if isinstance(source, nn.Module) else source
    seen: set[tuple[int, torch.Size]] = set()
    found = {}
    for name, tensor in state.items():
        place = (tensor.data_ptr(), tensor.shape)
        if place not in seen:
            found[name] = tensor.detach()
            seen.add(place)
    return found


def buckets(sizes: Mapping[str, int]) -> list[list[str]]:
    """Deal names with these sizes (bytes) into at most 16 buckets, in their order."""
    full = max(_SMALLEST_BUCKET, -(-sum(sizes.values()) // (MOST_TRANSFERS - 1)))
    out: list[list[str]] = [[]]
    held = 0
    for name, size in sizes.items():
        if held >= full:
            out.append([])
            held = 0
        out[-1].append(name)
        held += size
    return out


class SharedMemorySender:
    """Writes to a segment as large as the weights; the worker reads a bucket while the next is written.

    The segment is laid out as a worker wants it that computes with the weights in it (``vllm_in_place``): it
    then takes their digests alone. Any other worker loads them.
    """

    def __init__(self, dtype: torch.dtype) -> None:
        self._dtype = dtype
        self._receiver: Receiver | None = None
        self._segment: SharedMemory | None = None
        self._in_place = False
        self._offsets: dict[str, int] = {}
        self._views: dict[str, Tensor] = {}

    def connect(self, receiver: Receiver) -> None:
        self._receiver = receiver
        if self._segment is not None:
            self._attach()

    @property
    def kept(self) -> Mapping[str, Tensor]:
        return self._views

    def send(self, weights: Mapping[str, Tensor]) -> Sent:
        assert self._receiver is not None, "connect comes first"
        if {name: tensor.shape for name, tensor in weights.items()} != {
            name: view.shape for name, view in self._views.items()
        }:
            self._make(weights)
        started = time.perf_counter()
        sizes = {name: view.nbytes for name, view in self._views.items()}
        dealt = [list(sizes)] if self._in_place else buckets(sizes)
        asked = [self._receiver.ask("start_weight_update")]
        if self._in_place:
            asked[0].result()  # from here on the worker computes nothing
        for names in dealt:
            for name in names:
                self._views[name].copy_(weights[name])
            asked.append(self._receiver.ask("update_weights", update_info=self.layout(names)))
        written = time.perf_counter() - started
        asked.append(self._receiver.ask("finish_weight_update"))
        digested = self._receiver.ask("received_digests")
        digests = {
            name: digest(tensor.to(self._dtype)) for name, tensor in weights.items()
        }  # the worker reads
        for answer in asked:  # in order: the first error is the cause
            answer.result()
        seconds = written if self._in_place else time.perf_counter() - started
        return Sent(sum(sizes.values()), len(dealt), seconds, digests, digested.result())

    def layout(self, names: list[str]) -> dict[str, Any]:
        """Where these weights lie in the segment: a ``vllm_worker.SharedMemoryUpdateInfo``, as a dict."""
        return {
            "names": names,
            "dtype": str(self._dtype).removeprefix("torch."),
            "shapes": [list(self._views[name].shape) for name in names],
            "offsets": [self._offsets[name] for name in names],
        }

    def _make(self, weights: Mapping[str, Tensor]) -> None:
        """A segment with room for these weights. Raises ``EngineError`` where there is none."""
        assert self._receiver is not None
        self.close()
        wanted, *_ = self._receiver.ask("weight_layout").result()
        self._in_place = wanted is not None and wanted["offsets"].keys() == weights.keys()
        if self._in_place:
            size, self._offsets = wanted["size"], wanted["offsets"]
        else:
            size, self._offsets = 0, {}
            for name, tensor in weights.items():
                self._offsets[name] = size
                size += -(-tensor.numel() * self._dtype.itemsize // _ALIGNED) * _ALIGNED
        shared = Path("/dev/shm")
        free = disk_usage(shared).free if shared.is_dir() else size
        if free < size:  # writing beyond it would kill the process
            raise EngineError(
                f"The weights need {size / 2**20:.0f} MiB of shared memory, {shared} has {free / 2**20:.0f} "
                f"MiB left: raise its size (`docker run --shm-size`, or remount it)."
            )
        self._segment = SharedMemory(create=True, size=max(1, size))
        for name, tensor in weights.items():
            view = torch.frombuffer(
                self._segment.buf, dtype=self._dtype, count=tensor.numel(), offset=self._offsets[name]
            )
            self._views[name] = view.view(tensor.shape)
        self._attach()

    def _attach(self) -> None:
        assert self._receiver is not None
        assert self._segment is not None
        self._receiver.init_weight_transfer_engine(
            {"segment": self._segment.name, "in_place": self._in_place}
        )

    def close(self) -> None:
        self._views, self._offsets, self._in_place = {}, {}, False
        if self._segment is not None:
            segment, self._segment = self._segment, None
            segment.unlink()
            with suppress(BufferError):  # somebody still reads `kept`; the memory goes with the last of them
                segment.close()


class DeviceSender:
    """vLLM's own senders between processes with GPUs: ``ipc`` on one GPU, ``nccl`` between several.

    ``world`` is the number of the engine's workers. The weights that were sent last stay in main memory, for
    an engine that has to be started again.
    """

    def __init__(self, backend: str, dtype: torch.dtype, world: int) -> None:
        self._backend, self._dtype, self._world = backend, dtype, world
        self._receiver: Receiver | None = None
        self._engine: Any = None
        self._kept: dict[str, Tensor] = {}

    def connect(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self._drop()

    @property
    def kept(self) -> Mapping[str, Tensor]:
        return self._kept

    def send(self, weights: Mapping[str, Tensor]) -> Sent:
        assert self._receiver is not None, "connect comes first"
        sizes = {name: tensor.numel() * self._dtype.itemsize for name, tensor in weights.items()}
        total, widest = sum(sizes.values()), max(sizes.values())
        # A chunk ends before the tensor that would not fit, so half of the transfers may be half empty.
        bucket = max(_SMALLEST_BUCKET, -(-total // (MOST_TRANSFERS // 2 - 1)), widest)
        started = time.perf_counter()
        counted = _Counting(self._receiver)
        source = _Source(weights, self._dtype)
        if self._engine is None:
            self._engine = self._open(counted, source, bucket)
        self._engine.client, self._engine.source = counted, source
        self._engine.send_weights()
        seconds = time.perf_counter() - started
        self._kept = {name: tensor.to("cpu", self._dtype, copy=True) for name, tensor in weights.items()}
        transfers = counted.updates if self._backend == "ipc" else -(-total // bucket)
        received = self._receiver.ask("received_digests").result()
        digests = {name: digest(tensor) for name, tensor in source}  # on the GPU, as the worker's
        return Sent(total, transfers, seconds, digests, received)

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
                rank=0, master_address="127.0.0.1", master_port=get_open_port(),
                world_size=self._world + 1, packed=True, packed_buffer_size_bytes=bucket,
            ),
            client=receiver, source=source,
        )  # fmt: skip

    def _drop(self) -> None:
        if self._engine is not None:
            self._engine.shutdown()
            self._engine = None

    def close(self) -> None:
        self._drop()
        self._kept = {}


class _Meta:
    """What vLLM calls a ``ParamMeta``."""

    def __init__(self, name: str, dtype: torch.dtype, shape: tuple[int, ...]) -> None:
        self.name, self.dtype, self.shape = name, dtype, shape


class _Source:
    """What vLLM calls a ``WeightSource``: the weights on the GPU in the engine's dtype, one by one."""

    def __init__(self, weights: Mapping[str, Tensor], dtype: torch.dtype) -> None:
        self._weights, self._dtype = weights, dtype

    def metadata(self) -> list[_Meta]:
        return [_Meta(name, self._dtype, tuple(tensor.shape)) for name, tensor in self._weights.items()]

    def __iter__(self) -> Iterator[tuple[str, Tensor]]:
        for name, tensor in self._weights.items():
            yield name, tensor.to("cuda", self._dtype)


class _Counting:
    """A receiver that counts the updates that go through it."""

    def __init__(self, receiver: Receiver) -> None:
        self._receiver, self.updates = receiver, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._receiver, name)

    def update_weights(self, update_info: Any) -> None:
        self.updates += 1
        self._receiver.update_weights(update_info)
