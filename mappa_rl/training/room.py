"""Whether the cluster has what a run needs to begin: asked before the work that comes first, not after it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import torch

from mappa_rl.cluster.actors import free, listed
from mappa_rl.cluster.session import connect, has_own_head
from mappa_rl.config import Config
from mappa_rl.crews.roster import crews_of
from mappa_rl.engines.vllm.options import on_cpu
from mappa_rl.errors import ClusterError
from mappa_rl.training.members import policy_map_of
from mappa_rl.training.preflight.wishes import Wish, env_workers_within, environments, lasting


def wishes(config: Config) -> list[Wish]:
    """The actors without which a run on a cluster does not begin."""
    return [environments(config, 1), *lasting(config, policy_map_of(config), _on_gpus(config))]


def most_workers(config: Config, in_flight: int) -> int:
    """Processes that play ``in_flight`` episodes at once.

    A head of the run's own stays the only node: there they are as many as it has room for.
    """
    if config.cluster.name == "local":
        return 1
    cpus = None
    if has_own_head(config.cluster):
        cpus = connect(config.cluster).cluster_resources().get("CPU", 0.0)
    return env_workers_within(cpus, config, in_flight, wishes(config)[1:])


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


def _all(wanted: Iterable[Wish]) -> str:
    return "; ".join(map(str, wanted))


def _on_gpus(config: Config) -> bool:
    """Whether processes that train, and engines, get GPUs: if this machine has any."""
    if config.engine.name == "vllm":
        return not on_cpu()
    return torch.cuda.is_available()
