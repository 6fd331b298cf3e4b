"""Several engines that sample the same policy: its requests are spread over them."""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from mappa_rl.distributed import gathered, scattered
from mappa_rl.engines.base import Engine, Generation, Request
from mappa_rl.engines.weights.base import named_weights
from mappa_rl.errors import EngineError

if TYPE_CHECKING:
    from torch import Tensor, nn

    from mappa_rl.engines.weights.base import SyncStats

REMEMBERED = 65_536
"""Episodes whose replica is known; when there are more, the ones asked for longest ago are forgotten."""


class ReplicatedEngine:
    """An engine made of ``replicas`` with equal weights, which it owns. See ``Engine`` for the methods.

    An episode's requests go to the replica that got its first one, since that has the keys and values of its
    prompt. A new episode, or a request of none, goes to the replica with the fewest running requests, then to
    that with the fewest so far. One whose last answer was an error comes last, and loses the episode. Where a
    request runs changes its sample only by rounding. The replicas take weights one after another, so while
    they do, some sample with newer ones: each generation says which version.

    ``share`` makes of new weights what every replica loads, once; by default, whole weights.
    """

    def __init__(
        self,
        replicas: Sequence[Engine],
        share: Callable[[nn.Module | Mapping[str, Tensor]], AbstractContextManager[Any]] | None = None,
    ) -> None:
        if not replicas:
            raise EngineError("an engine needs at least one replica, found none.")
        self.replicas = tuple(replicas)
        self.max_len = min(replica.max_len for replica in replicas)
        self.version = max(replica.version for replica in replicas)
        self.last_sync: SyncStats | None = None
        self._share = share or _whole
        self._lock = threading.Lock()
        self._running, self._asked = Counter[int](), Counter[int]()
        self._failed = set[int]()
        self._places: OrderedDict[str, int] = OrderedDict()

    def generate(self, requests: Sequence[Request]) -> list[Generation]:
        """See ``Engine.generate``: the replicas work side by side."""
        futures = [self.submit(request) for request in requests]
        try:
            return [future.result() for future in futures]
        except BaseException:
            for future in futures:
                future.cancel()
            raise

    def submit(self, request: Request) -> Future[Generation]:
        """See ``Engine.submit``."""
        place = self._take(request.episode)
        try:
            future = self.replicas[place].submit(request)
        except BaseException:
            self._give_back(place, request.episode, failed=True)
            raise
        future.add_done_callback(partial(self._on_done, place, request.episode))
        return future

    def abort(self) -> None:
        """See ``Engine.abort``."""
        for replica in self.replicas:
            replica.abort()

    def load_weights(self, source: nn.Module | Mapping[str, Tensor], version: int | None = None) -> None:
        """See ``Engine.load_weights``. ``last_sync`` is the sum over the replicas."""
        version = self.version + 1 if version is None else version
        total: SyncStats | None = None
        with self._share(source) as weights:
            for replica in self.replicas:
                replica.load_weights(weights, version)
                if replica.last_sync is not None:
                    total = replica.last_sync if total is None else total + replica.last_sync
        self.version, self.last_sync = version, total

    def sleep(self) -> None:
        """See ``Engine.sleep``."""
        for replica in self.replicas:
            replica.sleep()

    def wake(self) -> None:
        """See ``Engine.wake``."""
        for replica in self.replicas:
            replica.wake()

    def close(self) -> None:
        """See ``Engine.close``. All replicas are closed, also if one of them fails to."""
        failed: Exception | None = None
        for replica in self.replicas:
            try:
                replica.close()
            except Exception as error:  # noqa: BLE001  (raised below, when the others are closed)
                failed = failed or error
        if failed is not None:
            raise failed

    def _take(self, episode: str) -> int:
        with self._lock:
            place = self._places.get(episode) if episode else None
            if place is None:
                place = min(range(len(self.replicas)), key=self._burden)
            if episode:
                self._places[episode] = place
                self._places.move_to_end(episode)
                if len(self._places) > REMEMBERED:
                    self._places.popitem(last=False)
            self._running[place] += 1
            self._asked[place] += 1
            return place

    def _burden(self, place: int) -> tuple[bool, int, int]:
        return place in self._failed, self._running[place], self._asked[place]

    def _on_done(self, place: int, episode: str, future: Future[Generation]) -> None:
        error = None if future.cancelled() else future.exception()
        self._give_back(place, episode, failed=isinstance(error, EngineError))

    def _give_back(self, place: int, episode: str, *, failed: bool) -> None:
        with self._lock:
            self._running[place] -= 1
            if not failed:
                self._failed.discard(place)
                return
            self._failed.add(place)
            if self._places.get(episode) == place:
                del self._places[episode]


@contextmanager
def _whole(source: nn.Module | Mapping[str, Tensor]) -> Iterator[nn.Module | Mapping[str, Tensor]]:
    """``source``; if its processes hold parts of it, its weights, which they put together once for all."""
    if isinstance(source, Mapping) or not scattered(source):
        yield source
        return
    with gathered(source):
        yield named_weights(source)
