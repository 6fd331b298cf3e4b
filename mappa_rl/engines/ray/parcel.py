"""New weights in Ray's object store, where every node can get them."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from mappa_rl.cluster.session import import_ray
from mappa_rl.distributed import gathered
from mappa_rl.engines.vllm.engine import AdapterEngine, VLLMEngine
from mappa_rl.engines.vllm.options import VLLMOptions
from mappa_rl.engines.vllm.saved_adapter import SavedAdapter
from mappa_rl.engines.weights.base import named_weights
from mappa_rl.engines.weights.digest import digest
from mappa_rl.errors import EngineError

Source = nn.Module | Mapping[str, Tensor]
"""What the learner has: a module, or weights by name."""
_Packed = tuple[torch.dtype, tuple[int, ...], np.ndarray[Any, np.dtype[np.uint8]]]


class Parcel(Protocol):
    """One update of a policy's weights."""

    @property
    def content(self) -> Any:
        """The reference to what is in the store."""
        ...

    def deliver(self, content: Any, engine: VLLMEngine, version: int) -> None:
        """Have an engine on this node load ``content``, fetched from the store. Raises ``EngineError``."""
        ...


@dataclass(frozen=True, slots=True)
class WeightsParcel:
    """Whole weights: ``content`` refers to their bytes, ``digests`` says what must arrive."""

    content: Any
    digests: dict[str, str]

    @classmethod
    def of(cls, source: Source, dtype: torch.dtype) -> WeightsParcel:
        """Put the weights into the store, in the engine's ``dtype``."""
        with gathered(source) if isinstance(source, nn.Module) else nullcontext():
            named = named_weights(source)
            whole = {name: tensor.to("cpu", dtype).contiguous() for name, tensor in named.items()}
            packed = {name: _packed(tensor) for name, tensor in whole.items()}
            digests = {name: digest(tensor) for name, tensor in whole.items()}
            return cls(import_ray().put(packed), digests)

    def deliver(self, content: dict[str, _Packed], engine: VLLMEngine, version: int) -> None:
        """See ``Parcel.deliver``. Weights that arrived damaged are not loaded."""
        weights = {name: _unpacked(*each) for name, each in content.items()}
        if {name: digest(tensor) for name, tensor in weights.items()} != self.digests:
            raise EngineError(
                "Weights that arrived on a node differ from those sent. Its memory or network is faulty: do "
                "not use it."
            )
        engine.load_weights(weights, version)


@dataclass(frozen=True, slots=True)
class AdapterParcel:
    """An adapter: ``content`` refers to its files in PEFT's format; ``size``: bytes of its tensors."""

    content: Any
    digests: dict[str, str]
    size: int

    @classmethod
    def of(cls, source: Source) -> AdapterParcel:
        """Put the adapter of a module into the store. Raises ``EngineError`` for anything else."""
        with TemporaryDirectory(prefix="mappa-adapter-") as folder:
            saved = SavedAdapter.of(source, Path(folder))
            files = {path.name: path.read_bytes() for path in saved.folder.iterdir()}
        return cls(import_ray().put(files), saved.digests, saved.bytes)

    def deliver(self, content: dict[str, bytes], engine: VLLMEngine, version: int) -> None:
        """See ``Parcel.deliver``."""
        assert isinstance(engine, AdapterEngine)
        started = time.perf_counter()
        folder = engine.new_folder()
        folder.mkdir()
        for name, file in content.items():
            (folder / name).write_bytes(file)
        engine.load_saved(SavedAdapter(folder, self.digests, self.size), version, started)


class Shared:
    """A source of weights whose parcel is packed once, by the first replica that loads it."""

    def __init__(self, source: Source, options: VLLMOptions) -> None:
        self._source, self._options = source, options

    @cached_property
    def parcel(self) -> Parcel:
        """What travels to the engines."""
        if self._options.adapters:
            return AdapterParcel.of(self._source)
        return WeightsParcel.of(self._source, self._options.torch_dtype)


def _packed(tensor: Tensor) -> _Packed:
    """Arrays travel without a copy; of bfloat16, NumPy knows only the bytes."""
    return tensor.dtype, tuple(tensor.shape), tensor.view(-1).view(torch.uint8).numpy()


def _unpacked(dtype: torch.dtype, shape: tuple[int, ...], raw: np.ndarray[Any, np.dtype[np.uint8]]) -> Tensor:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")  # we only read it
        return torch.from_numpy(raw).view(dtype).view(shape)
