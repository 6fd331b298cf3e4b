"""Weights straight from the learner's GPU to an engine in an actor, through vLLM's own transfer."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait
from functools import partial
from typing import Any

from torch import Tensor

from mappa_rl.cluster.actors import answer
from mappa_rl.engines.weights.base import Sender, SyncStats, push
from mappa_rl.errors import ActorLost
from mappa_rl.futures import in_background


class RayReceiver:
    """Implements ``base.Receiver`` by calls of an engine's ``actor``.

    ``lost`` raises ``ActorLost`` once a call has found that the actor died, and is pending until then.
    """

    def __init__(self, actor: Any, what: str) -> None:
        self._actor, self._what = actor, what
        self.lost: Future[None] = Future()
        self._telling = threading.Lock()

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
        try:
            return answer(getattr(self._actor, method).remote(*arguments), self._what)
        except ActorLost as error:
            with self._telling:
                if not self.lost.done():
                    self.lost.set_exception(error)
            raise

    def init_weight_transfer_engine(self, init_info: dict[str, Any]) -> None:
        """See ``Receiver.init_weight_transfer_engine``."""
        self.ask("init_weight_transfer_engine", init_info=init_info).result()

    def start_weight_update(self) -> None:
        """See ``Receiver.start_weight_update``."""
        self.ask("start_weight_update").result()

    def update_weights(self, update_info: Any) -> None:
        """See ``Receiver.update_weights``."""
        self.ask("update_weights", update_info=update_info).result()

    def finish_weight_update(self, weight_version: str | None = None) -> None:
        """See ``Receiver.finish_weight_update``."""
        self.ask("finish_weight_update", weight_version=weight_version).result()


class Direct:
    """Sends weights with ``sender`` to the engine in an actor, and again to the one that replaces it.

    Its methods wait. They raise ``ActorLost`` within seconds of the actor's death, also where the sender
    waits for a peer that is gone.
    """

    def __init__(self, sender: Sender, what: str) -> None:
        self._sender, self._what = sender, what
        self._receiver: RayReceiver | None = None
        self._connecting, self._keeping = threading.Lock(), threading.Lock()
        self.version = 0
        """Of the weights that were sent last."""

    def connect(self, actor: Any) -> None:
        """Use a fresh engine from now on. It gets the weights that were sent last, if any were."""
        receiver = RayReceiver(actor, self._what)
        with self._connecting:
            self._receiver = receiver
        self._unless_lost(receiver, partial(self._sender.connect, receiver))
        with self._keeping:
            if self._sender.kept:
                receiver.call("begin_update", self.version)
                self._unless_lost(receiver, partial(push, self._sender.kept, self._sender))
                receiver.call("end_update")

    def send(self, weights: Mapping[str, Tensor], version: int) -> SyncStats:
        """Replace all weights. Requests under way continue with the new ones."""
        receiver = self._receiver
        assert receiver is not None, "connect comes first"
        receiver.call("begin_update", version)
        stats: SyncStats = self._unless_lost(receiver, partial(push, weights, self._sender))
        with self._keeping:  # a fresh engine waits for the copy, and no request does
            receiver.call("end_update")
            self._sender.keep(weights)
            self.version = version
        return stats

    def close(self) -> None:
        """Free the sender's buffers."""
        self._sender.close()

    def _unless_lost(self, receiver: RayReceiver, call: Any) -> Any:
        """What ``call`` returns, on a thread that is left alone if the actor dies meanwhile."""
        calling = in_background(call)
        wait([calling, receiver.lost], return_when=FIRST_COMPLETED)
        if receiver.lost.done():
            with self._connecting:
                if self._receiver is receiver:  # else it sends to the next engine already
                    self._sender.abort()
            receiver.lost.result()
        return calling.result()
