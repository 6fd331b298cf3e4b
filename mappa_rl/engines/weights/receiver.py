"""The engine's side of an update of its weights: vLLM's calls, made from a thread other than its loop's."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any


class VLLMReceiver:
    """What a sender of weights talks to; see ``sync.Receiver``. ``llm`` gives vLLM, run by ``loop``."""

    def __init__(self, llm: Callable[[], Any], loop: asyncio.AbstractEventLoop) -> None:
        self._llm, self._loop = llm, loop

    def ask(self, method: str, **options: Any) -> Future[Any]:
        return self._run(self._llm().collective_rpc(method, kwargs=options))

    def init_weight_transfer_engine(self, init_info: dict[str, Any]) -> None:
        self.ask("init_weight_transfer_engine", init_info=init_info).result()

    def start_weight_update(self) -> None:
        self.ask("start_weight_update").result()

    def update_weights(self, update_info: Any) -> None:
        self.ask("update_weights", update_info=update_info).result()

    def finish_weight_update(self, weight_version: str | None = None) -> None:
        self._run(self._llm().finish_weight_update(weight_version)).result()

    def _run(self, coroutine: Coroutine[Any, Any, Any]) -> Future[Any]:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)
