"""An engine of a policy whose vLLM server is in a Ray actor.

Whole weights travel from GPU to GPU (``VLLMOptions.direct``); adapters, and what is in main memory, through
Ray's object store.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext

from torch import nn

from mappa_rl.distributed import gathered
from mappa_rl.engines.base import Generation, Request, room_for
from mappa_rl.engines.ray.parcel import Shared, Source
from mappa_rl.engines.ray.server import RayServer
from mappa_rl.engines.vllm.engine import check_shapes, shapes_of
from mappa_rl.engines.weights.base import SyncStats, named_weights
from mappa_rl.errors import EngineError
from mappa_rl.futures import failed


class RayEngine:
    """Samples the replies of the policy ``name`` on a ``server``. See ``Engine`` for the methods."""

    def __init__(self, server: RayServer, name: str) -> None:
        self._server, self.name = server, name
        self.max_len = server.options.max_len
        self.version = 0
        self.last_sync: SyncStats | None = None
        self._shapes = shapes_of(server.options.folder) if self.direct else {}

    def generate(self, requests: Sequence[Request]) -> list[Generation]:
        """See ``Engine.generate``. ``max_tokens`` is cut to the room that the context leaves."""
        for request in requests:
            room_for(request, self.max_len)
        futures = [self._server.submit(self.name, request) for request in requests]
        return [future.result() for future in futures]

    def submit(self, request: Request) -> Future[Generation]:
        """See ``Engine.submit``: the request joins the running ones at the next token."""
        try:
            room_for(request, self.max_len)
            return self._server.submit(self.name, request)
        except EngineError as error:
            return failed(error)

    def abort(self) -> None:
        """See ``Engine.abort``; requests of other policies on the same server continue."""
        self._server.abort(self.name)

    @property
    def direct(self) -> bool:
        """See ``VLLMOptions.direct``."""
        return self._server.options.direct

    def shared(self, source: Source) -> AbstractContextManager[Shared]:
        """``source`` for all replicas of this engine, to be packed only once."""
        return nullcontext(Shared(source, self._server.options))

    def load_weights(self, source: Source | Shared, version: int | None = None) -> None:
        """Send the weights and compare checksums; for running requests see the server's ``VLLMEngine``."""
        started = time.perf_counter()
        version = self.version + 1 if version is None else version
        if self.direct:
            assert not isinstance(source, Shared)
            with gathered(source) if isinstance(source, nn.Module) else nullcontext():
                weights = named_weights(source)
                check_shapes(weights, self._shapes, self._server.options.folder)
                self.last_sync = self._server.sync(weights, version)
            self.version = version
            return
        shared = source if isinstance(source, Shared) else Shared(source, self._server.options)
        stats = self._server.load(self.name, shared.parcel, version)
        seconds = time.perf_counter() - started
        self.version, self.last_sync = version, stats
        if stats is not None:
            moving = stats.moving + seconds - stats.seconds  # with the way to the node
            self.last_sync = dataclasses.replace(stats, seconds=seconds, moving=moving)

    def sleep(self) -> None:
        """See ``Engine.sleep``: the config refuses ``engine.sleep`` on a cluster, so this raises."""
        self._server.call("sleep", self.name)

    def wake(self) -> None:
        """See ``Engine.wake``."""
        self._server.call("wake", self.name)

    def close(self) -> None:
        """See ``Engine.close``; the server ends with the last engine on it."""
        self._server.leave(self.name)
