"""The vLLM engine: runs in separate processes on CPUs or GPUs and receives weights from the learner."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from mappa_rl.distributed import gathered
from mappa_rl.engines.base import Generation, Request, room_for
from mappa_rl.engines.vllm.saved_adapter import SavedAdapter
from mappa_rl.engines.vllm.server import VLLMServer
from mappa_rl.engines.weights.base import SyncStats, named_weights
from mappa_rl.engines.weights.digest import combined
from mappa_rl.errors import EngineError
from mappa_rl.futures import failed
from mappa_rl.models.lora import ADAPTER_FILE


def engines_on(server: VLLMServer, names: Sequence[str]) -> dict[str, VLLMEngine]:
    """The engines of the policies ``names`` on one server, which ends with the last of them."""
    if server.options.adapters:
        return {name: AdapterEngine(server, name) for name in names}
    return {name: VLLMEngine(server) for name in names}


class VLLMEngine:
    """Samples the replies of one policy on a ``server`` that holds the policy's full weights.

    ``last_sync``: cost of the last ``load_weights``; None before the first.
    """

    def __init__(self, server: VLLMServer) -> None:
        self._server = server
        server.join(self)
        self.max_len = server.options.max_len
        self.version = 0
        self.last_sync: SyncStats | None = None
        self._shapes = shapes_of(server.options.folder)

    def generate(self, requests: Sequence[Request]) -> list[Generation]:
        """See ``Engine.generate``. ``max_tokens`` is cut to the room that the context leaves."""
        limits = [room_for(request, self.max_len) for request in requests]
        futures = [
            self._server.submit(request, limit, self) for request, limit in zip(requests, limits, strict=True)
        ]
        return [future.result() for future in futures]

    def submit(self, request: Request) -> Future[Generation]:
        """See ``Engine.submit``: the request joins the running ones at the next token."""
        try:
            return self._server.submit(request, room_for(request, self.max_len), self)
        except EngineError as error:
            return failed(error)

    def abort(self) -> None:
        """See ``Engine.abort``; requests of other engines on the same server continue."""
        self._server.abort(self)

    def load_weights(self, source: nn.Module | Mapping[str, Tensor], version: int | None = None) -> None:
        """Send the weights and compare checksums; running requests continue with the new weights."""
        version = self.version + 1 if version is None else version
        with gathered(source) if isinstance(source, nn.Module) else nullcontext():
            weights = named_weights(source)
            check_shapes(weights, self._shapes, self._server.options.folder)
            self.last_sync = self._server.sync(weights, version)
        self.version = version

    def adapter(self) -> tuple[Any, int | None]:
        """See ``server.User``."""
        return None, None

    def sleep(self) -> None:
        """See ``Engine.sleep``. Raises ``EngineError`` unless the server was made with ``sleep``."""
        if not self._server.options.engine.sleep:
            raise EngineError(
                "This vLLM engine was started without sleep mode: set engine.sleep=true (on GPUs only)."
            )
        self._server.sleep()

    def wake(self) -> None:
        """See ``Engine.wake``."""
        if self._server.options.engine.sleep:
            self._server.wake()

    def close(self) -> None:
        """See ``Engine.close``; the server ends with the last engine on it."""
        self._server.leave(self)


class AdapterEngine(VLLMEngine):
    """Samples the replies of one policy on a server with many adapters on one frozen base.

    To vLLM every update is a new adapter, so running requests keep the weights that they began with.
    """

    def __init__(self, server: VLLMServer, name: str) -> None:
        super().__init__(server)
        self.name = name
        self._folder = Path(tempfile.mkdtemp(prefix="mappa-adapter-"))
        self._loaded: list[tuple[Any, Path]] = []

    def load_weights(self, source: nn.Module | Mapping[str, Tensor], version: int | None = None) -> None:
        """Write the adapter of a module from ``lora.adapted`` in PEFT's format and let vLLM load it."""
        started = time.perf_counter()
        saved = SavedAdapter.of(source, self.new_folder())
        self.load_saved(saved, self.version + 1 if version is None else version, started)

    def new_folder(self) -> Path:
        """Where to write the next adapter."""
        return self._folder / f"update-{time.monotonic_ns()}"

    def load_saved(self, saved: SavedAdapter, version: int, started: float) -> None:
        """Let vLLM load an adapter from a ``new_folder``; the update ``started`` then (``perf_counter``).

        The workers read the file again for the checksum, because vLLM rescales its copy of an adapter.
        """
        folder = saved.folder
        request = self._server.add_adapter(self.name, folder)
        moving = time.perf_counter() - started
        for found in self._server.workers("file_digests", str(folder / ADAPTER_FILE)):
            if found != saved.digests:
                raise EngineError(f"The engine read a different adapter than the one written to {folder}.")
        self._loaded.append((request, folder))
        if len(self._loaded) > 2:  # running requests may still use the one before
            old, path = self._loaded.pop(0)
            self._server.remove_adapter(old)
            shutil.rmtree(path)
        self.version = version
        seconds = time.perf_counter() - started
        self.last_sync = SyncStats(saved.bytes, 1, seconds, moving, combined(saved.digests))

    def adapter(self) -> tuple[Any, int | None]:
        """See ``server.User``."""
        return (self._loaded[-1][0], self.version) if self._loaded else (None, self.version)

    def close(self) -> None:
        """See ``Engine.close``; also removes the adapters' files."""
        super().close()
        shutil.rmtree(self._folder, ignore_errors=True)


def check_shapes(weights: Mapping[str, Tensor], shapes: Mapping[str, tuple[int, ...]], folder: Path) -> None:
    """Raise EngineError unless names and shapes are those of the model's ``folder``, its ``shapes``."""
    found = {name: tuple(tensor.shape) for name, tensor in weights.items()}
    wrong = sorted(name for name in {*found, *shapes} if found.get(name) != shapes.get(name))
    if wrong:
        raise EngineError(
            f"These weights do not fit the engine's model in {folder}: {wrong[0]} "
            f"is {found.get(wrong[0], 'missing')}, the folder has "
            f"{shapes.get(wrong[0], 'no such name')} ({len(wrong)} differ)."
        )


def shapes_of(folder: Path) -> dict[str, tuple[int, ...]]:
    """Shapes of the weights in a Hugging Face folder, by name."""
    from safetensors import safe_open

    found = {}
    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(path, framework="pt") as file:
            found.update({name: tuple(file.get_slice(name).get_shape()) for name in file.keys()})  # noqa: SIM118
    if not found:
        raise EngineError(f"{folder} has no *.safetensors file; save the model with save_pretrained first.")
    return found
