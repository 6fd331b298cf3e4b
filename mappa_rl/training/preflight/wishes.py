"""What a run asks of a cluster: actors, and what Ray reserves for each."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from mappa_rl.config import Config
from mappa_rl.crews.roster import crews_of
from mappa_rl.models.policy_map import PolicyMap
from mappa_rl.training.preflight.servers import servers


@dataclass(frozen=True, slots=True)
class Wish:
    """``count`` actors, each with the resources ``each``, which one node must have."""

    what: str
    count: int
    each: Mapping[str, float]

    def __str__(self) -> str:
        sizes = ", ".join(f"{size:g} {name}" for name, size in self.each.items())
        return f"{self.count:,} x ({sizes}) for {self.what}"


def wishes(config: Config, policies: PolicyMap, on_gpus: bool) -> Iterator[Wish]:
    """All actors of a run on a cluster, except those that reserve nothing."""
    cluster, processes = config.cluster, config.run.processes
    if processes > 1:
        yield Wish("further learner processes", processes - 1, cluster.learner_wish(on_gpus))
    for crew in sorted({*crews_of(config.placement.crews, policies).values()} - {0}):
        yield Wish(f"crew {crew}", processes, cluster.learner_wish(on_gpus))
    for server in servers(config, policies):
        if not server.replica:
            gpus = server.engine.tensor_parallel if on_gpus else 0
            what = f"engines of {', '.join(server.policies)}"
            yield Wish(what, server.engine.replicas, cluster.engine_wish(gpus))
    yield Wish("environments", env_workers(config), cluster.env_wish())


def env_workers(config: Config) -> int:
    """Processes that play environments, once all episodes in flight have begun."""
    needed = -(-in_flight(config) // config.cluster.envs_per_worker)
    return min(config.cluster.env_workers or needed, needed)


def in_flight(config: Config) -> int:
    """Episodes that are under way at once."""
    return config.rollout.episodes_per_step * (1 + config.rollout.staleness)


def head_is_here(config: Config) -> bool:
    """Whether a run starts a head of its own on this machine, which is the only node then."""
    if config.cluster.name == "local" or config.cluster.address or os.environ.get("RAY_ADDRESS"):
        return False
    ray = sys.modules.get("ray")  # not imported yet: not connected either
    return ray is None or not ray.is_initialized()
