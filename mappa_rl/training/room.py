"""Whether the cluster has what a run needs to begin: asked before the work that comes first, not after it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from mappa_rl.cluster.actors import free, listed
from mappa_rl.cluster.session import connect, has_own_head
from mappa_rl.cluster.wanted import by_engine, by_environments, by_training
from mappa_rl.config import Config
from mappa_rl.crews.roster import crews_of
from mappa_rl.engines.vllm.options import on_cpu
from mappa_rl.errors import ClusterError
from mappa_rl.training.members import policy_map_of


@dataclass(frozen=True, slots=True)
class Wish:
    """``count`` actors whose names begin with ``name``, each with the resources ``each``."""

    name: str
    count: int
    each: Mapping[str, float]

    def __str__(self) -> str:
        return f"{self.count} x {listed(self.each)} ({self.name})"


def wishes(config: Config) -> list[Wish]:
    """The actors without which a run on a cluster does not begin; engines of adapters: at least these."""
    cluster, policies, count = config.cluster, policy_map_of(config), config.run.processes
    found = [Wish("environments", 1, by_environments(cluster))]
    if count > 1:
        found.append(Wish("learner", count - 1, by_training(cluster)))
    crews = max(crews_of(config.placement.crews, policies).values(), default=0)
    if crews:
        found.append(Wish("crew", crews * count, by_training(cluster)))
    if config.engine.name == "vllm":
        servers = ["adapters"] if config.policies.map == "lora" else policies.names
        for name in servers:
            engine = config.engine_of(name)
            wanted = by_engine(cluster, 0 if on_cpu() else engine.tensor_parallel)
            found.append(Wish(f"engine-{name}", engine.replicas, wanted))
    return found


def record(config: Config) -> dict[str, dict[str, str]]:
    """For ``mappa-rl status``: ``roles`` and ``wants`` of processes, by the beginning of their names."""
    crews = crews_of(config.placement.crews, policy_map_of(config))
    roles = {f"crew-{number}": _trains(crews, number) for number in sorted({*crews.values()} - {0})}
    roles |= {"learner": _trains(crews, 0), "leader": f"plays the episodes, {_trains(crews, 0)}"}
    return {"roles": roles, "wants": {wish.name: listed(wish.each) for wish in wishes(config)}}


def check_room(config: Config) -> None:
    """Raises ClusterError if the cluster has no room for all that the run needs to begin, even alone there.

    A head of the run's own says so at once; other clusters, which may grow, have ``cluster.placement_s``.
    """
    ray, wanted, wait_s = connect(config.cluster), wishes(config), config.cluster.placement_s
    needs = Counter[str]()
    for wish in wanted:
        needs.update({name: size * wish.count for name, size in wish.each.items()})
    if has_own_head(config.cluster):
        has = ray.cluster_resources()
        if any(size > has.get(name, 0.0) for name, size in needs.items()):
            raise ClusterError(
                f"this machine has no room for the run: it wants {_all(wanted)}; there are {free()}. Ask for "
                "less, or start a cluster and name its cluster.address."
            )
        return
    room = ray.util.placement_group([dict(wish.each) for wish in wanted for _ in range(wish.count)])
    try:
        if not room.wait(wait_s):
            raise ClusterError(
                f"the cluster had no room for the run within cluster.placement_s={wait_s:g}: it wants "
                f"{_all(wanted)}; free are {free()}. Add nodes, ask for less, or raise cluster.placement_s."
            )
    finally:
        ray.util.remove_placement_group(room)


def _trains(crews: Mapping[str, int], number: int) -> str:
    return f"trains {', '.join(name for name, crew in crews.items() if crew == number)}"


def _all(wanted: list[Wish]) -> str:
    return ", ".join(map(str, wanted))
