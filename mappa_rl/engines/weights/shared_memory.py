"""Sends weights to an engine on the same machine through shared memory."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path
from shutil import disk_usage
from typing import Any

import torch
from torch import Tensor

from mappa_rl.engines.weights.base import Receiver, Sent, buckets
from mappa_rl.engines.weights.digest import copied
from mappa_rl.errors import EngineError

_ALIGNED = 64  # bytes
_IN_PLACE = 4  # buckets; a call of the worker costs more than a digest of a few MB


class SharedMemorySender:
    """Writes to a segment as large as the weights; the worker reads one bucket while the next is written.

    For a worker that computes in place (``vllm.in_place``), the worker chooses the layout of the segment and
    only digests the weights. Any other worker loads them. The learner's own digests are taken in copying.

    A segment loses its name as soon as the workers have opened it: its memory goes with the last process that
    uses it, also where all of them are killed at once.
    """

    def __init__(self, dtype: torch.dtype) -> None:
        self._dtype = dtype
        self._receiver: Receiver | None = None
        self._segment: SharedMemory | None = None
        self._in_place = False
        self._offsets: dict[str, int] = {}
        self._views: dict[str, Tensor] = {}

    def connect(self, receiver: Receiver) -> None:
        """See ``Sender.connect``; what is in a segment that exists already is kept."""
        self._receiver = receiver
        if self._segment is not None:
            before, shapes = self._segment, {name: view.shape for name, view in self._views.items()}
            segment = SharedMemory(create=True, size=before.size)
            torch.frombuffer(segment.buf, dtype=torch.uint8).copy_(
                torch.frombuffer(before.buf, dtype=torch.uint8)
            )
            self._use(segment, shapes)
            _close(before)

    @property
    def kept(self) -> Mapping[str, Tensor]:
        """See ``Sender.kept``: views of the segment."""
        return self._views

    def keep(self, weights: Mapping[str, Tensor]) -> None:
        """See ``Sender.keep``: what was sent is in the segment."""

    def send(self, weights: Mapping[str, Tensor]) -> Sent:
        """See ``Sender.send``. Raises EngineError where shared memory is too small."""
        assert self._receiver is not None, "connect comes first"
        if {name: tensor.shape for name, tensor in weights.items()} != {
            name: view.shape for name, view in self._views.items()
        }:
            self._make(weights)
        started = time.perf_counter()
        sizes = {name: view.nbytes for name, view in self._views.items()}
        dealt = buckets(sizes, _IN_PLACE) if self._in_place else buckets(sizes)
        asked = [self._receiver.ask("start_weight_update")]
        if self._in_place:
            asked[0].result()  # from here on the worker computes nothing
        digests: dict[str, str] = {}
        for names in dealt:
            digests |= {name: copied(weights[name], self._views[name]) for name in names}
            asked.append(self._receiver.ask("update_weights", update_info=self.layout(names)))
        written = time.perf_counter() - started
        asked.append(self._receiver.ask("finish_weight_update"))
        digested = self._receiver.ask("received_digests")
        for answer in asked:  # in order: the first error is the cause
            answer.result()
        seconds = written if self._in_place else time.perf_counter() - started
        return Sent(sum(sizes.values()), len(dealt), seconds, digests, digested.result())

    def layout(self, names: list[str]) -> dict[str, Any]:
        """Layout of these weights in the segment: a ``worker.SharedMemoryUpdateInfo`` as a dict."""
        return {
            "names": names,
            "dtype": str(self._dtype).removeprefix("torch."),
            "shapes": [list(self._views[name].shape) for name in names],
            "offsets": [self._offsets[name] for name in names],
        }

    def _make(self, weights: Mapping[str, Tensor]) -> None:
        """Create a segment for these weights. Raises ``EngineError`` if shared memory is too small."""
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
                f"The weights need {size / 2**20:.0f} MiB of shared memory, but {shared} has only "
                f"{free / 2**20:.0f} MiB left: increase its size (`docker run --shm-size`, or remount it)."
            )
        segment = SharedMemory(create=True, size=max(1, size))
        self._use(segment, {name: tensor.shape for name, tensor in weights.items()})

    def _use(self, segment: SharedMemory, shapes: Mapping[str, torch.Size]) -> None:
        """Have the workers open a new segment, and take its name away."""
        assert self._receiver is not None
        self._segment, self._views = segment, {}
        for name, shape in shapes.items():
            count, offset = shape.numel(), self._offsets[name]
            view = torch.frombuffer(segment.buf, dtype=self._dtype, count=count, offset=offset)
            self._views[name] = view.view(shape)
        try:
            self._receiver.init_weight_transfer_engine({"segment": segment.name, "in_place": self._in_place})
        finally:
            segment.unlink()

    def close(self) -> None:
        """Remove the segment. May be called twice."""
        self._views, self._offsets, self._in_place = {}, {}, False
        if self._segment is not None:
            segment, self._segment = self._segment, None
            _close(segment)


def _close(segment: SharedMemory) -> None:
    with suppress(BufferError):  # somebody still reads `kept`; the memory goes with the last of them
        segment.close()
