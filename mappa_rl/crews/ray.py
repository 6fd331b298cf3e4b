"""A crew of actors, on any nodes of a cluster."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import suppress
from pathlib import Path
from typing import Any

from mappa_rl.cluster.actors import VERDICT_S, answer
from mappa_rl.cluster.group import Group
from mappa_rl.cluster.session import connect
from mappa_rl.cluster.wanted import by_training
from mappa_rl.config import Config
from mappa_rl.crews.crew import Crew
from mappa_rl.errors import ActorLost, ClusterError, MappaRLError
from mappa_rl.memory import is_out_of_memory

WORK = "work"
"""The concurrency group of an actor's long calls, so that it says where it is meanwhile."""
_END_S = 20.0
"""Seconds that a crew may take to end by itself."""


class RayCrew(Crew):
    """Actors of the class ``actor``, one for each process; their policies begin as ``start``.

    Raises ClusterError if the cluster has no room for them, and CrewLost if one dies while it starts.
    """

    def __init__(
        self, number: int, policies: Sequence[str], config: Config, start: Path, actor: type
    ) -> None:
        super().__init__(number, policies)
        cluster, count = config.cluster, config.run.processes
        connect(cluster)
        self._name = f"crew-{number}"
        self._group = Group(self._name, count, by_training(cluster), cluster.placement_s)
        self._actors: list[Any] = []
        self._begun: list[Any] = []
        try:
            self._actors = self._group.start(actor, f"{self._name}-{{}}".format, concurrency_groups={WORK: 1})
            meet = answer(self._actors[0].meeting.remote(), self._name, cluster.placement_s)
            self._begun = [
                self._work(each, "begin", config, start.resolve(), number, rank, meet)
                for rank, each in enumerate(self._actors)
            ]
        except ActorLost as error:
            self.close()
            raise self._lost(str(error)) from error
        except BaseException:
            self.close()
            raise

    def ready(self) -> None:
        """See ``Crew.ready``."""
        self._received(self._begun[0])

    def close(self) -> None:
        """See ``Crew.close``."""
        # This process may have left the cluster, with which the actors end.
        with suppress(Exception):
            if self.idle and self._begun:
                last = [self._work(self._actors[0], "end"), *self._begun[1:]]
                wait([each.future() for each in last], _END_S)
        with suppress(Exception):
            self._group.close()

    def _answer(self, member: str, method: str, options: dict[str, Any]) -> Any:
        return self._received(self._work(self._actors[0], "call", member, method, options))

    def _work(self, actor: Any, method: str, *options: Any) -> Any:
        return getattr(actor, method).options(concurrency_group=WORK).remote(*options)

    def _received(self, call: Any) -> Any:
        """The first process's answer to ``call``. The others end only when they are released, or fail."""
        asked: Future[Any] = call.future()
        # Ray's own wait would make SIGTERM a Ctrl-C.
        done, _ = wait([asked, *(each.future() for each in self._begun[1:])], return_when=FIRST_COMPLETED)
        if asked not in done:  # the first fails, too, when it misses the other, and may say more
            wait([asked], VERDICT_S)
        try:
            return answer(call, self._name, None if asked.done() else 0.0)
        except Exception as error:
            why = self._death(error)
            if why is None:
                raise
            raise self._lost(why) from error

    def _death(self, error: Exception) -> str | None:
        """Which process's death led to ``error``; None if it has another cause."""
        if isinstance(error, ActorLost):
            return str(error)
        if is_out_of_memory(error) or (
            isinstance(error, MappaRLError) and not isinstance(error, ClusterError)
        ):
            return None
        until = time.monotonic() + VERDICT_S
        for rank, each in enumerate(self._begun[1:], 1):
            try:
                answer(each, f"{self._name}-{rank}", max(until - time.monotonic(), 0.0))
            except ActorLost as lost:
                return str(lost)
            except Exception:  # noqa: BLE001  # it fails as the first does
                continue
        return None
