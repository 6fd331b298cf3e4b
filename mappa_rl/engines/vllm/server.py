"""One vLLM engine in separate processes, driven by an event loop on a thread and restarted if it dies."""

from __future__ import annotations

import asyncio
import itertools
import logging
import threading
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Protocol, TypeVar

from torch import Tensor

from mappa_rl.distributed import free_cached
from mappa_rl.engines.base import Generation, Request
from mappa_rl.engines.vllm.options import VLLMOptions, import_vllm
from mappa_rl.engines.vllm.receiver import VLLMReceiver
from mappa_rl.engines.vllm.watched import unless_dead
from mappa_rl.engines.weights.base import Sender, SyncStats, push
from mappa_rl.errors import EngineError

RESTARTS = 3
"""Consecutive restarts without an answer before the server gives up."""
BACKOFF_S = 1.0
"""Seconds before the first restart; doubles with each consecutive one."""

CLOSING_S = 30.0
"""Seconds that vLLM's processes get to end by themselves; killed ones leave shared memory behind."""

WEIGHTS, CACHE = "weights", "kv_cache"
"""vLLM's names for what an engine that sleeps gives back."""

_T = TypeVar("_T")
_log = logging.getLogger(__name__)


class User(Protocol):
    """An engine that sends its requests to a server."""

    def adapter(self) -> tuple[Any, int | None]:
        """The LoRA request for the engine's requests and its version; None: the server's own weights."""
        ...


class VLLMServer:
    """Starts vLLM on ``options.folder`` and answers requests; methods may be called from any thread.

    Callbacks of the futures run on the serving thread: the only method that they may call is ``submit``.

    ``restarts`` counts the engine processes that died and were started again. A restart loads the weights of
    the last ``sync`` and the adapters of ``add_adapter``, and repeats the running requests. The server ends
    when its last user leaves.

    With ``options.direct``, another process sends the weights, through ``receiver`` between ``begin_update``
    and ``end_update``. Then there is no restart: an engine that dies is ``lost``, and all calls fail.
    """

    def __init__(self, options: VLLMOptions) -> None:
        import_vllm()
        self.options = options
        self.restarts = 0
        self._numbers = itertools.count(1)
        self._running: dict[str, User] = {}
        self._users: list[User] = []
        self._aborts: Counter[int] = Counter()
        self._adapters: dict[int, Any] = {}
        self._deaths, self.version = 0, 0
        self._failed: EngineError | None = None
        self._syncing, self._keeping, self._waking = threading.Lock(), threading.Lock(), threading.Lock()
        self._updating, self._paused, self._closed = False, False, False
        self._asleep: set[str] = set()
        self._loop = asyncio.new_event_loop()
        self._open, self._reviving = asyncio.Event(), asyncio.Lock()
        self._open.set()
        self._sender: Sender | None = None if options.direct else options.sender("127.0.0.1")
        self._llm: Any = options.start()
        self.lost = False
        self.receiver = VLLMReceiver(lambda: self._llm, self._loop)
        threading.Thread(target=self._loop.run_forever, name="vllm-engine", daemon=True).start()
        if self._sender is not None:
            self._sender.connect(self.receiver)

    # Requests

    def submit(self, request: Request, limit: int, user: User) -> Future[Generation]:
        """Continue ``request`` by at most ``limit`` tokens."""
        if self._closed:
            raise EngineError("This engine is closed; make another.")
        return asyncio.run_coroutine_threadsafe(self._serve(request, limit, user), self._loop)

    def abort(self, user: User) -> None:
        """End every running request of ``user``; each returns its tokens so far."""
        self._call(self._abort(user))

    async def _serve(self, request: Request, limit: int, user: User) -> Generation:
        aborts = self._aborts[id(user)]
        while True:
            await self._open.wait()
            if self._failed is not None:
                raise self._failed
            lora, version = user.adapter()
            if aborts != self._aborts[id(user)]:
                return Generation((), (), "abort", self.version if version is None else version)
            llm, name = self._llm, f"r{next(self._numbers)}"
            self._running[name] = user
            try:
                output = await self._finish(llm, name, request, limit, lora)
            except self.options.dead_error:
                await self._revive(llm)
                continue
            finally:
                del self._running[name]
            self._deaths = 0
            return self._read(output, version)

    async def _finish(self, llm: Any, name: str, request: Request, limit: int, lora: Any) -> Any:
        """The last output of a request. Raises vLLM's own error if the engine is dead."""
        prompt = {"prompt_token_ids": list(request.ids)}
        parameters = self.options.sampling(request, limit)
        output = None
        try:
            async for output in llm.generate(prompt, parameters, name, lora_request=lora):  # noqa: B007
                pass
        except self.options.dead_error:
            raise
        except Exception as error:  # vLLM's errors have no common base
            if llm.errored:
                raise self.options.dead_error from error
            raise EngineError(f"vLLM refused a request: {type(error).__name__}: {error}") from error
        assert output is not None
        return output

    def _read(self, output: Any, version: int | None) -> Generation:
        done = output.outputs[0]
        if version is None:
            spans = done.weight_versions
            label = spans[0].version if spans else str(self.version)
            version = int(label) if label.isdecimal() else 0  # "default" until the first update
        logprobs = tuple(done.logprobs.logprobs) if done.logprobs else ()
        stopped: Any = {"stop": "eos", "length": "length"}.get(done.finish_reason, "abort")
        return Generation(tuple(done.token_ids), logprobs, stopped, version)

    async def _abort(self, user: User) -> None:
        self._aborts[id(user)] += 1
        waiting = {name for name, owner in self._running.items() if owner is user}
        while waiting := waiting & set(self._running):  # again: some may not have arrived yet
            await self._llm.abort(list(waiting))
            await asyncio.sleep(0.002)

    # Weights

    def sync(self, weights: Mapping[str, Tensor], version: int) -> SyncStats:
        """Replace all weights. Requests under way continue with the new ones; their cache is recomputed."""
        assert self._sender is not None, "another process sends the weights"
        with self._syncing:
            while True:
                llm = self._llm
                try:
                    self.begin_update(version)
                    stats = push(weights, self._sender)
                    with self._keeping:  # the copy for a restart delays no request
                        self.end_update()
                        self._sender.keep(weights)
                except self.options.dead_error:
                    self._call(self._revive(llm))
                    continue
                except BaseException as error:
                    self._call(self._fail(error))
                    raise
                return stats

    def begin_update(self, version: int) -> None:
        """Hold all requests until ``end_update``; the weights that come meanwhile have this ``version``."""
        self._call(self._begin())
        self.version = version

    def end_update(self) -> None:
        """Let the requests continue with the new weights."""
        self._wake(CACHE)
        self._call(self._end())

    async def _begin(self) -> None:
        if self._failed is not None:
            raise self._failed
        self._updating = True
        self._open.clear()
        if self._running:
            await unless_dead(self._llm, self._llm.pause_generation(mode="keep", clear_cache=False))
            self._paused = True

    async def _end(self) -> None:
        both = asyncio.gather(  # one wait for both
            self._llm.update_weight_version(str(self.version)),
            self._llm.reset_prefix_cache(reset_running_requests=True),
        )
        await unless_dead(self._llm, both)
        if self._paused:
            await unless_dead(self._llm, self._llm.resume_generation())
        self._paused = self._updating = False
        self._deaths = 0
        self._open.set()

    def add_adapter(self, name: str, folder: Path) -> Any:
        """Load a LoRA adapter under an id of its own; return vLLM's request for it."""
        from vllm.lora.request import LoRARequest

        number = next(self._numbers)
        request = LoRARequest(f"{name}-{number}", number, str(folder))
        self._adapters[number] = request
        self._retried(lambda llm: llm.add_lora(request))
        self._wake(CACHE)
        return request

    def remove_adapter(self, request: Any) -> None:
        """Unload the adapter of ``request``, a value that ``add_adapter`` returned."""
        self._adapters.pop(request.lora_int_id, None)
        self._retried(lambda llm: llm.remove_lora(request.lora_int_id))

    def workers(self, method: str, *args: Any) -> list[Any]:
        """Call a method in every worker of the engine."""
        return self._retried(lambda llm: llm.collective_rpc(method, args=args))

    # Memory and life

    def sleep(self) -> None:
        """Free GPU memory: drop the weights (level 2) or, with adapters, move the base to main memory (1)."""
        if not self._asleep:
            self._retried(lambda llm: llm.sleep(level=1 if self.options.adapters else 2))
            self._asleep = {WEIGHTS, CACHE}

    def wake(self) -> None:
        """Take memory for the weights after ``sleep``; those of level 2 come with the next ``sync``.

        The memory of the key-value cache comes back with ``sync`` or ``add_adapter``, when the copies that
        the transfer needs are gone.
        """
        self._wake(WEIGHTS)

    def _wake(self, tag: str) -> None:
        with self._waking:  # adapters may come at once
            if tag in self._asleep:
                free_cached()
                self._retried(lambda llm: llm.wake_up(tags=[tag]))
                self._asleep.discard(tag)

    def join(self, user: User) -> None:
        """Register ``user``: the server runs until its last user leaves."""
        self._users.append(user)

    def leave(self, user: User) -> None:
        """Abort the requests of ``user``; the last one to leave ends vLLM's processes."""
        if user not in self._users:
            return
        if self._users == [user]:
            self.options.halted.set()  # a restart that is under way
        self._call(self._abort(user))
        self._users.remove(user)
        if not self._users:
            self._closed = True
            self._call(self._stop())
            if self._sender is not None:
                self._sender.close()
            self._loop.call_soon_threadsafe(self._loop.stop)

    def lost_with(self, error: Exception) -> bool:
        """Whether vLLM has died for good, as a call that raised ``error`` may have found."""
        dead = isinstance(error, self.options.dead_error) or self._llm.errored
        if self._sender is None and dead:
            self._loop.call_soon_threadsafe(self._lose)
            return True
        return self.lost

    def _lose(self) -> None:
        if not self.lost:
            self.lost = True
            self._failed = EngineError("The vLLM engine's process died, and its weights are elsewhere.")
            self._open.set()

    async def _stop(self) -> None:
        if self._llm.output_handler is not None:
            self._llm.output_handler.cancel()  # else it reports the engine's end as an error
        await asyncio.to_thread(_shut_down, self._llm, CLOSING_S)

    def _retried(self, ask: Callable[[Any], Coroutine[Any, Any, _T]]) -> _T:
        return self._call(self._ask(ask))

    async def _ask(self, ask: Callable[[Any], Coroutine[Any, Any, _T]]) -> _T:
        while True:
            if self._failed is not None:
                raise self._failed
            llm = self._llm
            try:
                return await unless_dead(llm, ask(llm))
            except self.options.dead_error:
                await self._revive(llm)

    async def _revive(self, dead: Any) -> None:
        """Replace the engine ``dead`` unless that is done. Raises ``EngineError`` after ``RESTARTS``."""
        if self._sender is None:
            self._lose()
        async with self._reviving:
            while self._llm is dead and self._failed is None:
                self._open.clear()
                try:
                    if self._deaths == RESTARTS:
                        raise EngineError(
                            f"The vLLM engine died {RESTARTS + 1} times in a row without an answer. If "
                            "memory ran out, lower engine.memory_fraction, engine.kv_cache_mb or "
                            f"engine.max_num_seqs. {self.options.log.last_lines()}"
                        )
                    pause = BACKOFF_S * 2**self._deaths
                    self._deaths += 1
                    _log.warning("The vLLM engine's process died; restarting it in %g s.", pause)
                    await asyncio.to_thread(_shut_down, dead)
                    await asyncio.sleep(pause)
                    self._llm = dead = await asyncio.to_thread(self.options.start)
                    self._asleep = set()
                    self.restarts += 1
                    await asyncio.to_thread(self._restore)
                    for request in list(self._adapters.values()):
                        await unless_dead(self._llm, self._llm.add_lora(request))
                    dead = None
                except self.options.dead_error:
                    continue
                except EngineError as error:
                    if self._deaths == RESTARTS or self.options.halted.is_set():
                        self._failed = error
                    else:
                        _log.warning("The vLLM engine did not restart: %s", error)
                finally:
                    self._paused = False
                    if not self._updating or self._failed is not None:
                        self._open.set()
        if self._failed is not None:
            raise self._failed

    async def _fail(self, error: BaseException) -> None:
        """Stop serving: a partial update would mix old and new weights."""
        self._failed = EngineError(f"An update of vLLM's weights failed, so the engine was stopped: {error}")
        self._open.set()
        await asyncio.to_thread(_shut_down, self._llm)  # running requests then fail

    def _restore(self) -> None:
        """Connect the sender to a fresh engine and send the last weights again."""
        assert self._sender is not None
        self._sender.connect(self.receiver)
        with self._keeping:
            if self._sender.kept:
                push(self._sender.kept, self._sender)
                self._call(unless_dead(self._llm, self._llm.update_weight_version(str(self.version))))

    def _call(self, coroutine: Coroutine[Any, Any, _T]) -> _T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()


def _shut_down(llm: Any, timeout: float | None = None) -> None:
    """Once: deleted at the interpreter's end, vLLM's object would do it again, and fail."""
    llm.shutdown(timeout=timeout)
    llm.shutdown = _nothing


def _nothing(timeout: float | None = None) -> None:
    pass
