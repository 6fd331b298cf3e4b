"""The actor that owns a vLLM server on a node of the cluster."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
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
    with ``ActorLost``, so nobody gets an answer from weights of the past. So does one whose vLLM has died
    where the weights are ``direct``: it waits for its end.
    """

    def __init__(self) -> None:
        self._engines: dict[str, VLLMEngine] | None = None
        self._server: VLLMServer | None = None
        self._waits = False
        self._starting = asyncio.Lock()
        self._aborts = Counter[str]()
        self._requests = 0

    async def where(self) -> dict[str, Any]:
        """See ``here``; ``of`` names its policies, ``requests`` counts those under way."""
        return {**here(), "of": " ".join(self._engines or ()), "requests": self._requests}

    async def start(
        self,
        settings: Mapping[str, Any],
        names: Sequence[str],
        updates: Mapping[str, tuple[Parcel, int]],
        waits: bool = False,
    ) -> None:
        """Start vLLM, unless it runs, with the engines ``names``, which then load ``updates`` with versions.

        ``waits``: it answers no request before the first ``end_update``. ``settings`` are those of
        ``VLLMOptions``. The model's folder and the log are on a file system that all nodes share. Raises
        ``EngineError``.
        """
        async with self._starting:
            if self._engines is not None:
                return
            server, engines = await asyncio.to_thread(_started, settings, names)
            try:
                for name, (parcel, version) in updates.items():
                    await _deliver(parcel, engines[name], version)
            except BaseException:
                for engine in engines.values():
                    await asyncio.to_thread(engine.close)
                raise
            self._server, self._engines, self._waits = server, engines, waits

    async def generate(self, name: str, request: Request, aborts: int) -> Generation:
        """Continue ``request``, sent after so many ``aborts`` of its engine; one that comes late ends."""
        engine = self._engine(name)
        if self._waits:
            raise ActorLost("the weights that the engine had were lost with its process.")
        if aborts < self._aborts[name]:
            return Generation((), (), "abort", engine.version)
        self._requests += 1
        try:
            with self._noticing():
                return await asyncio.wrap_future(engine.submit(request))
        finally:
            self._requests -= 1

    async def abort(self, name: str, aborts: int) -> None:
        """See ``Engine.abort``; ``aborts`` counts it."""
        engine = self._engine(name)
        self._aborts[name] = max(aborts, self._aborts[name])
        with self._noticing():
            await asyncio.to_thread(engine.abort)

    async def load(self, name: str, parcel: Parcel, version: int) -> SyncStats | None:
        """See ``Engine.load_weights``."""
        engine = self._engine(name)
        await _deliver(parcel, engine, version)
        return engine.last_sync

    async def begin_update(self, version: int) -> None:
        """See ``VLLMServer.begin_update``: the leading process sends weights now."""
        with self._noticing():
            await asyncio.to_thread(self._running().begin_update, version)

    async def receive(self, method: str, options: Mapping[str, Any]) -> Any:
        """Call a method of the server's receiver, or of its workers, and return what they do."""
        receiver = self._running().receiver
        with self._noticing():
            if method == "finish_weight_update":
                return await asyncio.to_thread(receiver.finish_weight_update, **options)
            return await asyncio.wrap_future(receiver.ask(method, **options))

    async def end_update(self) -> None:
        """See ``VLLMServer.end_update``."""
        server = self._running()
        with self._noticing():
            await asyncio.to_thread(server.end_update)
        self._waits = False
        for engine in (self._engines or {}).values():
            engine.version = server.version

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

    def _running(self) -> VLLMServer:
        if self._engines is None or self._server is None:
            raise ActorLost("the engine was lost with its process.")
        return self._server

    @contextmanager
    def _noticing(self) -> Iterator[None]:
        """A block with a call of vLLM. If vLLM has died for good, empties this actor and raises ActorLost."""
        server = self._server
        try:
            yield
        except Exception as error:
            if server is None or not server.lost_with(error):
                raise
            if self._server is server:
                self._engines, self._server = None, None
            raise ActorLost(f"the engine was lost with vLLM's process: {error}") from None


def _started(settings: Mapping[str, Any], names: Sequence[str]) -> tuple[VLLMServer, dict[str, VLLMEngine]]:
    options = VLLMOptions(**settings)
    if not options.folder.is_dir():
        raise EngineError(
            f"The model's folder {options.folder} is missing on the node {here()['address']}: with "
            "cluster=ray models and the run's folder must be on a file system that all nodes share."
        )
    server = VLLMServer(options)
    return server, engines_on(server, names)


async def _deliver(parcel: Parcel, engine: VLLMEngine, version: int) -> None:
    content = await parcel.content  # Ray brings it to this node
    await asyncio.to_thread(parcel.deliver, content, engine, version)
