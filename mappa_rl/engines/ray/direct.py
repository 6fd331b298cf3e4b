"""Weights straight from the learner's GPU to an engine in an actor, through vLLM's own transfer."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

from torch import Tensor

from mappa_rl.cluster.actors import answer
from mappa_rl.engines.weights.base import AskingReceiver, Sender, SyncStats, push


class RayReceiver(AskingReceiver):
    """Implements ``base.Receiver`` by calls of an engine's ``actor``. They raise ``ActorLost`` if it dies."""

    def __init__(self, actor: Any, what: str) -> None:
        self._actor, self._what = actor, what

    def ask(self, method: str, **options: Any) -> Future[Any]:
        """See ``Receiver.ask``. Waits for the answer: calls of an actor may overtake one another."""
        found: Future[Any] = Future()
        try:
            found.set_result(self.call("receive", method, options))
        except Exception as error:  # noqa: BLE001  (the caller of `result` gets it)
            found.set_exception(error)
        return found

    def call(self, method: str, *arguments: Any) -> Any:
        """Call a method of the actor and wait for what it returns. Raises what it raises, and ActorLost."""
        return answer(getattr(self._actor, method).remote(*arguments), self._what)

    def finish_weight_update(self, weight_version: str | None = None) -> None:
        """See ``Receiver.finish_weight_update``."""
        self.ask("finish_weight_update", weight_version=weight_version).result()


class Direct:
    """Sends weights with ``sender`` to the engine in an actor, and again to the one that replaces it.

    Its methods wait, one for the other. They raise ``ActorLost`` when the actor dies, or vLLM in it.
    """

    def __init__(self, sender: Sender, what: str) -> None:
        self._sender, self._what = sender, what
        self._receiver: RayReceiver | None = None
        self._turn = threading.Lock()
        self.version = 0
        """Of the weights that were sent last."""

    @property
    def has_sent(self) -> bool:
        """Whether a fresh engine gets weights with ``connect``."""
        return bool(self._sender.kept)

    def connect(self, actor: Any) -> None:
        """Use a fresh engine from now on. It gets the weights that were sent last, if any were."""
        with self._turn:
            receiver = self._receiver = RayReceiver(actor, self._what)
            self._sender.connect(receiver)
            if self.has_sent:
                receiver.call("begin_update", self.version)
                push(self._sender.kept, self._sender)
                receiver.call("end_update")

    def send(self, weights: Mapping[str, Tensor], version: int) -> SyncStats:
        """Replace all weights. Requests under way continue with the new ones."""
        with self._turn:
            assert self._receiver is not None, "connect comes first"
            self._receiver.call("begin_update", version)
            stats = push(weights, self._sender)
            self._receiver.call("end_update")
            self._sender.keep(weights)  # no request waits for it
            self.version = version
            return stats

    def close(self) -> None:
        """Free the sender's buffers."""
        self._sender.close()
