"""Room for actors that work closely together: reserved at once, on as few nodes as possible."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mappa_rl.cluster.actors import answer, seen, unplaced
from mappa_rl.cluster.session import import_ray
from mappa_rl.errors import ClusterError

_POLL_S = 0.2


class Group:
    """Room for ``count`` actors with the resources ``each``; ``what`` they are, for messages.

    Raises ClusterError after ``wait_s`` seconds without it, with what is wanted and free.
    """

    def __init__(self, what: str, count: int, each: Mapping[str, float], wait_s: float) -> None:
        ray, util = import_ray(), import_ray().util
        self._what, self._each, self._until = what, dict(each), time.monotonic() + wait_s
        self._wait_s = wait_s
        self._actors: list[Any] = []
        self._room = util.placement_group([self._each] * count, strategy="PACK")
        if not self._room.wait(wait_s):
            self.close()
            raise unplaced(what, each, wait_s, count)
        own = ray.get_runtime_context().get_node_id()
        nodes = util.placement_group_table(self._room)["bundles_to_node_id"]
        self._order = sorted(range(count), key=lambda number: (nodes[number] != own, nodes[number], number))

    def start(self, kind: type, named: Callable[[int], str], **options: Any) -> list[Any]:
        """An actor of class ``kind`` in every place, in order of node and GPU; this process's node first.

        ``named``: the name of the actor that starts as number ``i``. Its class has a method ``where``.
        """
        ray = import_ray()
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

        remote = ray.remote(**options)(kind) if options else ray.remote(kind)
        for number, place in enumerate(self._order):
            ready = remote.options(
                name=named(number),
                num_cpus=self._each.get("CPU", 0.0),
                num_gpus=self._each.get("GPU", 0.0),
                scheduling_strategy=PlacementGroupSchedulingStrategy(self._room, place),
            )
            self._actors.append(self._started(ready, named(number)))
        asked = [actor.where.remote() for actor in self._actors]
        left = max(self._until - time.monotonic(), 1.0)
        where = [answer(each, self._what, left) for each in asked]
        for each in where:
            seen(each)
        return [self._actors[number] for number in in_order(where)]

    def _started(self, ready: Any, name: str) -> Any:
        """The actor, once its name is free: of one that was told to end the name is taken for a while."""
        while True:
            try:
                return ready.remote()
            except import_ray().exceptions.ActorAlreadyExistsError:
                if time.monotonic() >= self._until:
                    raise ClusterError(
                        f"the name {name} was not free within cluster.placement_s={self._wait_s:g}: an actor "
                        "of this run has not ended."
                    ) from None
                time.sleep(_POLL_S)

    def close(self) -> None:
        """Give the room back; the actors in it end."""
        ray = import_ray()
        for actor in self._actors:  # without its room an actor would end, too, but keep its name
            ray.kill(actor)
        ray.util.remove_placement_group(self._room)


def in_order(where: Sequence[Mapping[str, Any]]) -> list[int]:
    """The numbers of actors by node, in order of first mention, then by GPU. ``where``: ``here`` of each."""
    nodes = list(dict.fromkeys(each["node"] for each in where))
    return sorted(range(len(where)), key=lambda i: (nodes.index(where[i]["node"]), _gpus(where[i]), i))


def _gpus(where: Mapping[str, Any]) -> list[int]:
    return [int(each) for each in str(where.get("GPU", "")).split(",") if each.isdigit()]
