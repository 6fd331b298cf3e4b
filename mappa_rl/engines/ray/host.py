"""The actor that owns a vLLM server on a node of the cluster."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from mappa_rl.cluster.actors import here
from mappa_rl.engines.base import Generation, Request
from mappa_rl.engines.ray.parcel import Parcel
from mappa_rl.engines.vllm.engine import VLLMEngine, engines_on
from mappa_rl.engines.vllm.options import VLLMOptions
from mappa_rl.engines.vllm.server import VLLMServer
from mappa_rl.engines.weights.base import SyncStats
from mappa_rl.errors import ActorLost, EngineError


class EngineHost:
    """A vLLM server and the engines of the policies on it, by name. An asynchronous actor.

    A new one is empty until ``start``, and so is one that replaces a process that died: it refuses all calls
    with ``ActorLost``, so nobody gets an answer from weights of the past.
    """

    def __init__(self) -> None:
        self._engines: dict[str, VLLMEngine] | None = None
        self._starting = asyncio.Lock()
        self._aborts = Counter[str]()
        self._requests = 0

    async def where(self) -> dict[str, Any]:
        """See ``here``; ``of`` names its policies, ``requests`` counts those under way."""
        return {**here(), "of": " ".join(self._engines or ()), "requests": self._requests}

    async def start(
        self, settings: Mapping[str, Any], names: Sequence[str], updates: Mapping[str, tuple[Parcel, int]]
    ) -> None:
        """Start vLLM, unless it runs, with the engines ``names``, which then load ``updates`` with versions.

        ``settings`` are those of ``VLLMOptions``. The model's folder and the log are on a file system that
        all nodes share. Raises ``EngineError``.
        """
        async with self._starting:
            if self._engines is not None:
                return
            engines = await asyncio.to_thread(_started, settings, names)
            try:
                for name, (parcel, version) in updates.items():
                    await _deliver(parcel, engines[name], version)
            except BaseException:
                for engine in engines.values():
                    await asyncio.to_thread(engine.close)
                raise
            self._engines = engines

    async def generate(self, name: str, request: Request, aborts: int) -> Generation:
        """Continue ``request``, sent after so many ``aborts`` of its engine; one that comes late ends."""
        engine = self._engine(name)
        if aborts < self._aborts[name]:
            return Generation((), (), "abort", engine.version)
        self._requests += 1
        try:
            return await asyncio.wrap_future(engine.submit(request))
        finally:
            self._requests -= 1

    async def abort(self, name: str, aborts: int) -> None:
        """See ``Engine.abort``; ``aborts`` counts it."""
        engine = self._engine(name)
        self._aborts[name] = max(aborts, self._aborts[name])
        await asyncio.to_thread(engine.abort)

    async def load(self, name: str, parcel: Parcel, version: int) -> SyncStats | None:
        """See ``Engine.load_weights``."""
        engine = self._engine(name)
        await _deliver(parcel, engine, version)
        return engine.last_sync

    async def sleep(self, name: str) -> None:
        """See ``Engine.sleep``."""
        await asyncio.to_thread(self._engine(name).sleep)

    async def wake(self, name: str) -> None:
        """See ``Engine.wake``."""
        await asyncio.to_thread(self._engine(name).wake)

    async def close(self, name: str) -> None:
        """See ``Engine.close``; vLLM ends with the last engine."""
        engine = self._engine(name)
        assert self._engines is not None
        del self._engines[name]
        await asyncio.to_thread(engine.close)

    def _engine(self, name: str) -> VLLMEngine:
        if self._engines is None:
            raise ActorLost(f"the engine of {name} was lost with its process.")
        if name not in self._engines:
            raise EngineError("This engine is closed; make another.")
        return self._engines[name]


def _started(settings: Mapping[str, Any], names: Sequence[str]) -> dict[str, VLLMEngine]:
    options = VLLMOptions(**settings)
    if not options.folder.is_dir():
        raise EngineError(
            f"The model's folder {options.folder} is missing on the node {here()['address']}: with "
            "cluster=ray models and the run's folder must be on a file system that all nodes share."
        )
    return engines_on(VLLMServer(options), names)


async def _deliver(parcel: Parcel, engine: VLLMEngine, version: int) -> None:
    content = await parcel.content  # Ray brings it to this node
    await asyncio.to_thread(parcel.deliver, content, engine, version)
