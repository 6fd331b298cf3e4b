"""What a run asks of a cluster: actors, and what Ray reserves for each."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from mappa_rl.cluster.session import has_own_head
from mappa_rl.config import Config
from mappa_rl.crews.roster import crews_of
from mappa_rl.models.policy_map import PolicyMap
from mappa_rl.training.preflight.servers import servers


@dataclass(frozen=True, slots=True)
class Wish:
    """``count`` actors, each with the resources ``each``, which one node must have.

    ``name``: how the names of these actors begin; ``what``: what they are for.
    """

    name: str
    what: str
    count: int
    each: Mapping[str, float]

    def __str__(self) -> str:
        sizes = ", ".join(f"{size:g} {name}" for name, size in self.each.items())
        return f"{self.count:,} x ({sizes}) for {self.what}"


def wishes(config: Config, policies: PolicyMap, on_gpus: bool) -> Iterator[Wish]:
    """All actors of a run on a cluster, except those that reserve nothing."""
    yield from lasting(config, policies, on_gpus)
    yield environments(config, env_workers(config, policies, on_gpus))


def environments(config: Config, count: int) -> Wish:
    """So many processes that play environments."""
    return Wish("environments", "environments", count, config.cluster.env_wish())


def lasting(config: Config, policies: PolicyMap, on_gpus: bool) -> Iterator[Wish]:
    """The actors that train and generate: without all of them a run does not begin."""
    cluster, processes = config.cluster, config.run.processes
    if processes > 1:
        yield Wish("learner", "further learner processes", processes - 1, cluster.learner_wish(on_gpus))
    for crew in sorted({*crews_of(config.placement.crews, policies).values()} - {0}):
        yield Wish(f"crew-{crew}", f"crew {crew}", processes, cluster.learner_wish(on_gpus))
    for server in servers(config, policies):
        if not server.replica:
            gpus = server.engine.tensor_parallel if on_gpus else 0
            what = f"engines of {', '.join(server.policies)}"
            name = f"engine-{'adapters' if policies.lora else server.policies[0]}"
            yield Wish(name, what, server.engine.replicas, cluster.engine_wish(gpus))


def env_workers(config: Config, policies: PolicyMap, on_gpus: bool) -> int:
    """Processes that play environments, once all episodes in flight have begun."""
    cpus = float(os.cpu_count() or 1) if head_is_here(config) else None
    return env_workers_within(cpus, config, in_flight(config), lasting(config, policies, on_gpus))


def env_workers_within(cpus: float | None, config: Config, episodes: int, others: Iterable[Wish]) -> int:
    """Processes that play ``episodes`` at once, on a machine of ``cpus`` that ``others`` share.

    ``cpus``: None on nodes that grow in number. ``cluster.env_workers`` is not lowered by it.
    """
    cluster = config.cluster
    needed = -(-episodes // cluster.envs_per_worker)
    if cluster.env_workers:
        return min(cluster.env_workers, needed)
    if cpus is None:
        return needed
    free = cpus - sum(wish.count * wish.each.get("CPU", 0.0) for wish in others)
    return max(1, min(needed, int(free // cluster.env_cpus)))


def in_flight(config: Config) -> int:
    """Episodes that are under way at once."""
    return config.rollout.episodes_per_step * (1 + config.rollout.staleness)


def head_is_here(config: Config) -> bool:
    """Whether a run starts a head of its own on this machine, which is the only node then."""
    if config.cluster.name == "local" or not has_own_head(config.cluster):
        return False
    ray = sys.modules.get("ray")  # not imported yet: not connected either
    return ray is None or not ray.is_initialized()
