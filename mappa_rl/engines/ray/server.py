"""A vLLM server in an actor: placed on a node, called from here, and started again if it dies."""

from __future__ import annotations

import asyncio
import logging
import secrets
import threading
import time
from collections import Counter
from collections.abc import Coroutine, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from torch import Tensor

from mappa_rl.cluster.actors import answer, here, placed
from mappa_rl.cluster.session import connect, import_ray
from mappa_rl.engines.base import Generation, Request
from mappa_rl.engines.ray.direct import Direct
from mappa_rl.engines.ray.host import EngineHost
from mappa_rl.engines.ray.parcel import Parcel
from mappa_rl.engines.vllm.log import EngineLog
from mappa_rl.engines.vllm.options import VLLMOptions, on_cpu
from mappa_rl.engines.vllm.server import BACKOFF_S, CLOSING_S, RESTARTS
from mappa_rl.engines.weights.base import SyncStats
from mappa_rl.errors import ActorLost, ClusterError, EngineError
from mappa_rl.futures import in_background

MOST_AT_ONCE = 10_000
"""Calls that an actor takes at once: vLLM itself lets requests wait, and an abort must reach them all."""
_POLL_S = 0.1

_T = TypeVar("_T")
_log = logging.getLogger(__name__)


class RayServer:
    """Starts an actor with vLLM for the policies ``names``; methods may be called from any thread.

    Callbacks of the futures run on the calling thread: the only method that they may call is ``submit``.

    When the actor dies, Ray starts another, on any node. It gets each policy's last weights before it answers
    requests, and the running requests are asked again. The parcels of the last weights stay in the object
    store for that, and those that were sent straight to it (``options.direct``) in main memory here. The
    actor ends when the last policy leaves.
    """

    def __init__(self, options: VLLMOptions, names: Sequence[str], host: type[Any] = EngineHost) -> None:
        self.options, self._names = options, list(names)
        self.name = "-".join(["engine", *names, *([f"{options.replica}"] if options.replica else [])])
        self._aborts = Counter[str]()
        self._last: dict[str, tuple[Parcel, int]] = {}
        self._deaths, self._life = 0, 0
        self._failed: EngineError | None = None
        self._ended = False
        self._loop = asyncio.new_event_loop()
        self._open, self._reviving = asyncio.Event(), asyncio.Lock()
        self._open.set()
        self._wanted = _wanted(options)
        self._actor = self._create(host)
        self._direct = Direct(options.sender(here()["address"]), self.name) if options.direct else None
        try:
            self._start(self._names, {})
        except BaseException:
            import_ray().kill(self._actor)
            raise
        threading.Thread(target=self._loop.run_forever, name=self.name, daemon=True).start()

    def submit(self, name: str, request: Request) -> Future[Generation]:
        """Continue a request of the policy ``name``. Raises ``EngineError`` once it is closed."""
        if name not in self._names:
            raise EngineError("This engine is closed; make another.")
        return self._begin(self._serve(name, request, self._aborts[name]))

    def abort(self, name: str) -> None:
        """End every running request of a policy; each returns its tokens so far."""
        self._begin(self._abort(name)).result()

    def load(self, name: str, parcel: Parcel, version: int) -> SyncStats | None:
        """Give a policy new weights."""
        return self._begin(self._load(name, parcel, version)).result()

    def sync(self, weights: Mapping[str, Tensor], version: int) -> SyncStats:
        """Send new weights straight to the engine, with ``options.direct``. Raises ``EngineError``."""
        assert self._direct is not None, "weights come as parcels"
        for _ in range(RESTARTS + 1):
            life = self._begin(self._opened()).result()
            try:
                stats = self._direct.send(weights, version)
            except ActorLost as error:
                self._begin(self._revive(life, error)).result()
                continue
            except BaseException as error:  # also an interrupt: the engine waits for the rest
                self._begin(self._fail(error)).result()
                raise
            self._deaths = 0
            return stats
        failure = EngineError(
            f"{self.name} died {RESTARTS + 1} times in a row during an update of its weights."
        )
        self._begin(self._fail(failure)).result()
        raise failure

    def call(self, method: str, name: str) -> None:
        """Call a method of the host for a policy, which returns nothing."""
        self._begin(self._call(method, name)).result()

    def leave(self, name: str) -> None:
        """Abort the requests of a policy; the last one to leave ends the actor."""
        if name not in self._names:
            return
        self._names.remove(name)
        last = not self._names
        if last:
            self.options.halted.set()  # a start that is under way
        self._begin(self._leave(name, last)).result()
        if last:
            self._ended = True
            self._loop.call_soon_threadsafe(self._loop.stop)
            if self._direct is not None:
                self._direct.close()

    async def _serve(self, name: str, request: Request, aborts: int) -> Generation:
        while True:
            await self._open.wait()
            if aborts != self._aborts[name]:
                return Generation((), (), "abort", self._version(name))
            found = await self._try("generate", name, request, aborts)
            if found is not None:
                generation: Generation = found[1]
                return generation

    def _version(self, name: str) -> int:
        """Of the weights that the policy got last."""
        if self._direct is not None:
            return self._direct.version
        return self._last[name][1] if name in self._last else 0

    async def _abort(self, name: str) -> None:
        self._aborts[name] += 1
        with suppress(ActorLost):  # its requests are asked again, and find that they were aborted
            await self._answer(self._actor.abort.remote(name, self._aborts[name]))

    async def _load(self, name: str, parcel: Parcel, version: int) -> SyncStats | None:
        while True:
            found = await self._try("load", name, parcel, version)
            if found is not None and found[0] == self._life:  # else the actor with these weights is gone
                self._last[name] = (parcel, version)
                stats: SyncStats | None = found[1]
                return stats

    async def _call(self, method: str, name: str) -> None:
        while await self._try(method, name) is None:
            pass

    async def _leave(self, name: str, last: bool) -> None:
        self._aborts[name] += 1
        self._last.pop(name, None)
        try:
            with suppress(ActorLost, TimeoutError):  # what is lost is closed
                await asyncio.wait_for(self._answer(self._actor.close.remote(name)), 2 * CLOSING_S)
        finally:
            if last:
                import_ray().kill(self._actor)
        if last and (others := asyncio.all_tasks() - {asyncio.current_task()}):
            await asyncio.wait(others)

    async def _try(self, method: str, *arguments: Any) -> tuple[int, Any] | None:
        """The actor's life and what the call returns; None if it died, and another has started."""
        life = await self._opened()
        reference = getattr(self._actor, method).remote(*arguments)
        try:
            found = await self._answer(reference)
        except ActorLost as error:
            await asyncio.shield(self._revive(life, error))
            return None
        except asyncio.CancelledError:
            import_ray().cancel(reference)
            raise
        self._deaths = 0
        return life, found

    async def _opened(self) -> int:
        """The actor's life, once it takes calls. Raises what the engine failed with."""
        await self._open.wait()
        if self._failed is not None:
            raise self._failed
        return self._life

    async def _fail(self, error: BaseException) -> None:
        """Answer nobody any more: a partial update would mix old and new weights."""
        self._failed = EngineError(f"An update of {self.name}'s weights failed, so it was stopped: {error}")
        import_ray().kill(self._actor)
        self._open.set()

    async def _answer(self, reference: Any) -> Any:
        """See ``answer``; other calls go on meanwhile."""
        done = asyncio.Event()
        reference.future().add_done_callback(lambda _: self._loop.call_soon_threadsafe(done.set))
        await done.wait()
        return answer(reference, self.name)

    async def _revive(self, life: int, error: Exception) -> None:
        """Start the actor of this ``life`` again unless that is done. If it fails, so do all later calls."""
        async with self._reviving:
            if life != self._life or self._failed is not None:
                return
            self._life += 1
            self._open.clear()
            try:
                while not await self._revived(error):
                    pass
            except ClusterError as failure:
                self._failed = EngineError(str(failure))
            except EngineError as failure:
                self._failed = failure
            finally:
                self._open.set()

    async def _revived(self, error: Exception) -> bool:
        """Whether another try was enough. Raises ``EngineError`` after ``RESTARTS``."""
        if self.options.halted.is_set():
            raise EngineError("This engine is closed; make another.")
        if self._deaths == RESTARTS:
            raise EngineError(f"{self.name} died {RESTARTS + 1} times in a row without an answer: {error}")
        pause = BACKOFF_S * 2**self._deaths
        self._deaths += 1
        _log.warning("%s; it starts again in %g s.", error, pause)
        if self._direct is not None:  # it may be alive and out of reach, or still receive weights
            import_ray().kill(self._actor, no_restart=False)
        await asyncio.sleep(pause)
        try:
            await asyncio.to_thread(self._start, list(self._names), dict(self._last))
        except (ActorLost, EngineError) as failure:
            if self.options.halted.is_set() or self._deaths == RESTARTS:
                raise
            _log.warning("%s did not start: %s", self.name, failure)
            return False
        return True

    def _create(self, host: type[Any]) -> Any:
        cluster, ray = self.options.config.cluster, connect(self.options.config.cluster)
        return (
            ray.remote(host)
            .options(
                name=f"{self.name}-{secrets.token_hex(3)}",  # the one before may not be gone yet
                num_cpus=cluster.engine_cpus,
                num_gpus=self._wanted.get("GPU", 0),
                resources={cluster.engine_node: 1.0} if cluster.engine_node else None,
                scheduling_strategy="SPREAD",
                max_restarts=-1,
                max_concurrency=MOST_AT_ONCE,
            )
            .remote()
        )

    def _start(self, names: Sequence[str], updates: Mapping[str, tuple[Parcel, int]]) -> None:
        """Wait until the actor runs vLLM with these weights; give up once ``options.halted``."""
        starting = in_background(partial(self._start_there, names, updates))
        while not starting.done():
            if self.options.halted.is_set():
                import_ray().kill(self._actor)
                raise EngineError("The engine was closed while it started.")
            wait([starting], _POLL_S)
        starting.result()

    def _start_there(self, names: Sequence[str], updates: Mapping[str, tuple[Parcel, int]]) -> None:
        wait_s = self.options.config.cluster.placement_s
        until = time.monotonic() + wait_s
        while True:
            try:
                placed(self._actor, self.name, self._wanted, wait_s)
                break
            except ActorLost as error:  # Ray is starting it again
                if self.options.halted.is_set() or time.monotonic() > until:
                    raise ClusterError(
                        f"{self.name} did not come back within cluster.placement_s={wait_s:g}: {error}"
                    ) from None
                time.sleep(_POLL_S)
        waits = self._direct is not None and self._direct.has_sent
        answer(self._actor.start.remote(_settings(self.options), names, updates, waits), self.name)
        if self._direct is None:
            return
        try:
            self._direct.connect(self._actor)
        except (ClusterError, EngineError):
            raise
        except Exception as error:  # NCCL's, vLLM's and torch's have no common base
            raise EngineError(f"{self.name} did not get its weights again: {error}") from error

    def _begin(self, coroutine: Coroutine[Any, Any, _T]) -> Future[_T]:
        if self._ended:
            coroutine.close()
            raise EngineError("This engine is closed; make another.")
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)


def _wanted(options: VLLMOptions) -> dict[str, float]:
    """What Ray reserves for the actor."""
    return options.config.cluster.engine_wish(0 if on_cpu() else options.engine.tensor_parallel)


def _settings(options: VLLMOptions) -> dict[str, Any]:
    """``options`` for another process, with paths that do not depend on where that began."""
    log = options.log.path
    return {
        "folder": options.folder.resolve(),
        "config": options.config,
        "sharing": options.sharing,
        "adapters": options.adapters,
        "log": EngineLog(None if log is None else log.resolve()),
        "replica": options.replica,
        "direct": options.direct,
    }
