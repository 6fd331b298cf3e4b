"""Where the parts of a run will be, and what each place holds at the start, in generation and in training."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from mappa_rl.config import Config
from mappa_rl.crews.roster import crews_of
from mappa_rl.models.policy_map import PolicyMap
from mappa_rl.training.preflight.resources import Footprint, gpu_bytes


@dataclass(frozen=True, slots=True)
class Place:
    """A GPU, or a group of equal processes. Bytes of each; None: not estimated, or nothing of note.

    ``node``: which machine it is on: ``this``, or ``any`` of a cluster.
    """

    name: str
    node: str
    trains: str = ""
    generates: str = ""
    start: int | None = None
    generation: int | None = None
    training: int | None = None


def placement(config: Config, policies: PolicyMap, need: Footprint) -> Iterator[Place]:
    """The places of a run: those that train, those that generate, and on a cluster those that play."""
    yield from _learners(config, policies, need)
    yield from _engines(config, policies, need)
    if config.cluster.name == "ray":
        yield from _actors(config)


def _learners(config: Config, policies: PolicyMap, need: Footprint) -> Iterator[Place]:
    """The process that leads, which also generates where no engine has a place of its own, and the others."""
    memory, roster = need.memory, crews_of(config.placement.crews, policies)
    engine = config.engine.name if need.shared or config.engine.name == "hf" else ""
    own = memory.generation if engine else 0
    several = need.processes > 1 or need.crews
    trains = _trained(roster, 0)
    yield Place(
        f"{_kind(need)} 0 (leads)" if several else f"{_kind(need)} 0",
        "this",
        trains,
        f"{', '.join(policies.names)} ({engine})" if engine else "",
        max(memory.start, need.warm),
        memory.held + own + memory.transfer,
        memory.training + (own if memory.apart else 0),
    )
    node = "this" if config.cluster.name == "local" else "any"
    if need.processes > 1:
        name = _numbered(need, 1, need.processes - 1)
        yield Place(name, node, trains, "", memory.start, memory.held, memory.training)
    for number, crew in enumerate(need.crews, 1):
        name = _numbered(need, number * need.processes, (number + 1) * need.processes - 1)
        sizes = (crew.start, crew.held, crew.training)
        yield Place(f"{name} (crew {number})", node, _trained(roster, number), "", *sizes)


def _trained(roster: Mapping[str, int], crew: int) -> str:
    return ", ".join(name for name, number in roster.items() if number == crew)


def _kind(need: Footprint) -> str:
    return "GPU" if need.on_gpu else "process"


def _numbered(need: Footprint, first: int, last: int) -> str:
    if first == last:
        return f"{_kind(need)} {first}"
    return f"{'GPUs' if need.on_gpu else 'processes'} {first} to {last}, each"


def _engines(config: Config, policies: PolicyMap, need: Footprint) -> Iterator[Place]:
    """The servers of vLLM that have a place of their own."""
    if config.engine.name != "vllm" or need.shared:
        return
    most = max(config.engine_of(name).replicas for name in policies.names)
    node = "this" if config.cluster.name == "local" else _node(config.cluster.engine_node)
    for replica in range(most):
        name = f"replica {replica}" if most > 1 else "engines"
        sampled = [policy for policy in policies.names if replica < config.engine_of(policy).replicas]
        if need.on_gpu:
            held = int(config.engine.memory_fraction * gpu_bytes())
            for devices, plays in _by_devices(config, sampled, replica).items():
                yield Place(f"GPU {devices} ({name})", node, "", ", ".join(plays), held, held, held)
        else:
            held = need.replicas[replica]
            yield Place(f"vLLM's processes ({name})", node, "", ", ".join(sampled), held, held, held)


def _by_devices(config: Config, sampled: Sequence[str], replica: int) -> dict[str, list[str]]:
    """GPUs, or how many of a cluster's -> the policies whose engines of this ``replica`` are on them."""
    found: dict[str, list[str]] = {}
    for policy in sampled:
        engine = config.engine_of(policy)
        devices = ", ".join(map(str, engine.devices_of(replica))) or f"x {engine.tensor_parallel}"
        found.setdefault(devices, []).append(policy)
    return found


def _actors(config: Config) -> Iterator[Place]:
    cluster, rollout = config.cluster, config.rollout
    in_flight = rollout.episodes_per_step * (1 + rollout.staleness)
    count = cluster.env_workers or -(-in_flight // cluster.envs_per_worker)
    each = -(-in_flight // count)
    yield Place(
        f"environments, at most {count:,} x {each:,}",
        f"{_node(cluster.env_node)} ({cluster.env_cpus:g} CPU each)",
    )


def _node(resource: str) -> str:
    return f"any with {resource}" if resource else "any"
