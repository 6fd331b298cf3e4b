"""The engine's side of a weight update: calls of vLLM from a thread other than its event loop's."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any

from mappa_rl.engines.vllm.watched import unless_dead
from mappa_rl.engines.weights.base import AskingReceiver


class VLLMReceiver(AskingReceiver):
    """Implements ``base.Receiver``. ``llm`` returns the current vLLM engine, which runs on ``loop``."""

    def __init__(self, llm: Callable[[], Any], loop: asyncio.AbstractEventLoop) -> None:
        self._llm, self._loop = llm, loop

    def ask(self, method: str, **options: Any) -> Future[Any]:
        """See ``Receiver.ask``."""
        llm = self._llm()
        return self._run(llm, llm.collective_rpc(method, kwargs=options))

    def finish_weight_update(self, weight_version: str | None = None) -> None:
        """See ``Receiver.finish_weight_update``."""
        llm = self._llm()
        self._run(llm, llm.finish_weight_update(weight_version)).result()

    def _run(self, llm: Any, call: Coroutine[Any, Any, Any]) -> Future[Any]:
        return asyncio.run_coroutine_threadsafe(unless_dead(llm, call), self._loop)
