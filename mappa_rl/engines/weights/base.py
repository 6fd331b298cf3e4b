"""Sending the learner's weights to an engine in another process, in few and large pieces.

The engine's side is ``mappa_rl.engines.vllm_worker``. Three ways, of which ``VLLMOptions.backend`` names one:
``shm``, shared memory of CPUs (``shared_memory_sender.py``), and vLLM's own senders (``device_sender.py``):
``ipc``, handles to memory of the GPU that both use, or ``nccl``, between GPUs.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from mappa_rl.engines.digest import combined
from mappa_rl.errors import EngineError

MOST_TRANSFERS = 16
SMALLEST_BUCKET = 16 * 2**20  # bytes; below, a transfer costs more than its bytes


@dataclass(frozen=True, slots=True)
class SyncStats:
    """What updates of engines' weights cost: ``bytes`` sent in ``transfers``.

    ``seconds`` of wall time until digests were compared, ``moving`` of them until the engine had the weights.
    ``checksum`` is one over all tensors, by name, as the engine's workers have them; it was compared with the
    trainer's own, tensor by tensor.
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

    ``digests`` are of the learner's tensors in the engine's dtype, ``received`` of those that every worker of
    the engine computes with, or handed to its model.
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
    full = max(SMALLEST_BUCKET, -(-sum(sizes.values()) // (MOST_TRANSFERS - 1)))
    out: list[list[str]] = [[]]
    held = 0
    for name, size in sizes.items():
        if held >= full:
            out.append([])
            held = 0
        out[-1].append(name)
        held += size
    return out
