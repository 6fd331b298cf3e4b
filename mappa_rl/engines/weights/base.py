"""Sending the learner's weights to an engine in another process, in few and large pieces.

The engine's side is ``mappa_rl.engines.vllm.worker``. ``VLLMOptions.backend`` names one of three ways:
``shm``, shared memory of CPUs (``shared_memory.py``), and vLLM's own senders (``device.py``): ``ipc``, for a
GPU that both use, or ``nccl``, between GPUs.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from mappa_rl.engines.weights.digest import combined
from mappa_rl.errors import EngineError

MOST_TRANSFERS = 16
SMALLEST_BUCKET = 16 * 2**20  # bytes; below, a transfer costs more than its bytes
LARGEST_BUCKET = 2**30  # bytes; between GPUs both sides hold some


@dataclass(frozen=True, slots=True)
class SyncStats:
    """Cost of updates of engines' weights: ``bytes`` sent in ``transfers``.

    ``seconds``: wall time until all digests were compared; ``moving``: wall time until the engine had the
    weights. ``checksum`` covers all tensors by name; each worker's tensors matched the trainer's.
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
    """The engine's side of an update; vLLM's senders call the first four methods and wait for them."""

    def init_weight_transfer_engine(self, init_info: dict[str, Any]) -> None:
        """Connect the workers with the sender that ``init_info`` describes."""
        ...

    def start_weight_update(self) -> None:
        """Prepare the workers for new weights."""
        ...

    def update_weights(self, update_info: Any) -> None:
        """Hand one bucket of weights to the workers."""
        ...

    def finish_weight_update(self, weight_version: str | None = None) -> None:
        """Let the workers compute with the new weights."""
        ...

    def ask(self, method: str, **options: Any) -> Future[Any]:
        """Call a method in every worker without waiting; workers keep the order of the calls."""
        ...


class AskingReceiver(ABC):
    """The calls of a ``Receiver`` that ``ask`` answers."""

    @abstractmethod
    def ask(self, method: str, **options: Any) -> Future[Any]:
        """See ``Receiver.ask``."""

    def init_weight_transfer_engine(self, init_info: dict[str, Any]) -> None:
        """See ``Receiver.init_weight_transfer_engine``."""
        self.ask("init_weight_transfer_engine", init_info=init_info).result()

    def start_weight_update(self) -> None:
        """See ``Receiver.start_weight_update``."""
        self.ask("start_weight_update").result()

    def update_weights(self, update_info: Any) -> None:
        """See ``Receiver.update_weights``."""
        self.ask("update_weights", update_info=update_info).result()


@dataclass(frozen=True, slots=True)
class Sent:
    """Result of one ``Sender.send``; ``seconds``: time until the engine had the weights.

    ``digests``: of the learner's tensors in the engine's dtype, by name. ``received``: for every worker, of
    the tensors that it computes with or passed to its model.
    """

    bytes: int
    transfers: int
    seconds: float
    digests: dict[str, str]
    received: list[dict[str, str]]


class Sender(Protocol):
    """One way to send weights. Call ``connect`` first, and again after a restart of the engine's process."""

    def connect(self, receiver: Receiver) -> None:
        """Use ``receiver`` from now on."""
        ...

    def send(self, weights: Mapping[str, Tensor]) -> Sent:
        """Send all weights. Raises what the receiver raises, also where its workers are waited for."""
        ...

    def keep(self, weights: Mapping[str, Tensor]) -> None:
        """Have a copy of the weights last sent in ``kept``. The engine may compute meanwhile."""
        ...

    @property
    def kept(self) -> Mapping[str, Tensor]:
        """The copy that ``keep`` made, independent of the learner's tensors."""
        ...

    def close(self) -> None:
        """Free the buffers; ``kept`` is empty afterwards."""
        ...


def push(weights: Mapping[str, Tensor], sender: Sender) -> SyncStats:
    """Send ``weights`` and compare checksums. Raises ``EngineError`` if they differ."""
    started = time.perf_counter()
    sent = sender.send(weights)
    right = sent.digests
    for rank, received in enumerate(sent.received):
        wrong = sorted(name for name in {*right, *received} if right.get(name) != received.get(name))
        if wrong:
            raise EngineError(
                f"Worker {rank} of the engine received weights that differ from those sent: {wrong[:3]} and "
                f"{max(0, len(wrong) - 3)} more. Memory or transport is faulty: do not use this engine."
            )
    whole = time.perf_counter() - started
    return SyncStats(sent.bytes, sent.transfers, whole, sent.seconds, combined(right))


def named_weights(source: nn.Module | Mapping[str, Tensor]) -> dict[str, Tensor]:
    """All weights of a module or state dict by name; tied weights once, under their first name."""
    state = source.state_dict() if isinstance(source, nn.Module) else source
    seen: set[tuple[int, torch.Size]] = set()
    found = {}
    for name, tensor in state.items():
        place = (tensor.data_ptr(), tensor.shape)
        if place not in seen:
            found[name] = tensor.detach()
            seen.add(place)
    return found


def gpu_bucket(total: int) -> int:
    """Bytes of a transfer between GPUs, of ``total``. A tensor that is larger travels whole.

    A bucket ends before the tensor that would not fit, so half of the transfers may be half empty.
    """
    return max(SMALLEST_BUCKET, min(LARGEST_BUCKET, -(-total // (MOST_TRANSFERS // 2 - 1))))


def buckets(sizes: Mapping[str, int], most: int = MOST_TRANSFERS) -> list[list[str]]:
    """Split names with these sizes (bytes) into at most ``most`` buckets, in order."""
    full = max(SMALLEST_BUCKET, -(-sum(sizes.values()) // (most - 1)))
    out: list[list[str]] = [[]]
    held = 0
    for name, size in sizes.items():
        if held >= full:
            out.append([])
            held = 0
        out[-1].append(name)
        held += size
    return out
