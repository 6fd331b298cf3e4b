"""Where the parts of a run will be, and what each place holds at the start, in generation and in training."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from mappa_rl.config import Config
from mappa_rl.crews.roster import crews_of
from mappa_rl.models.policy_map import PolicyMap
from mappa_rl.training.preflight.gpu import local_gpus
from mappa_rl.training.preflight.resources import Footprint, gpu_bytes
from mappa_rl.training.preflight.servers import Server, servers
from mappa_rl.training.preflight.wishes import env_workers, in_flight


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
    if need.on_gpu and config.cluster.name == "local":
        yield from _gpus(config, policies, need)
        return
    yield from _learners(config, policies, need)
    yield from _engines(config, policies, need)
    if config.cluster.name == "ray":
        yield from _actors(config, env_workers(config, policies, need.on_gpu))


def _gpus(config: Config, policies: PolicyMap, need: Footprint) -> Iterator[Place]:
    """Every GPU of this machine once; neighbours with the same work share a row."""
    roster = crews_of(config.placement.crews, policies)
    several = need.processes > 1 or need.crews
    rows: list[tuple[Place, list[int]]] = []
    for gpu in local_gpus(config, policies, need):
        leads = " (leads)" if gpu.index == 0 and several else ""
        crew = f" (crew {gpu.crew})" if gpu.crew else ""
        trains = "" if gpu.crew is None else _trained(roster, gpu.crew)
        generates = "; ".join(_served(config, gpu.servers))
        if config.engine.name == "hf" and gpu.index == 0:
            generates = f"{', '.join(policies.names)} (hf)"
        sizes = (gpu.start, gpu.generation, gpu.training)
        place = Place(f"{leads}{crew}", "this", trains, generates, *sizes)
        if rows and rows[-1][0] == place and rows[-1][1][-1] == gpu.index - 1:
            rows[-1][1].append(gpu.index)
        else:
            rows.append((place, [gpu.index]))
    for place, found in rows:
        yield replace(place, name=f"{_numbered(need, found[0], found[-1])}{place.name}")


def _served(config: Config, found: Sequence[Server]) -> Iterator[str]:
    """What servers on one GPU sample, by replica."""
    for replica in sorted({server.replica for server in found}):
        there = [server for server in found if server.replica == replica]
        names = ", ".join(name for server in there for name in server.policies)
        several = any(server.engine.replicas > 1 for server in there)
        yield f"{names} ({config.engine.name}{f', replica {replica}' if several else ''})"


def _learners(config: Config, policies: PolicyMap, need: Footprint) -> Iterator[Place]:
    """The process that leads, which also generates where no engine has a place of its own, and the others."""
    memory, roster = need.memory, crews_of(config.placement.crews, policies)
    engine = "hf" if config.engine.name == "hf" else ""
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
    cluster = config.cluster
    node = "this" if cluster.name == "local" else _node(cluster.learner_node)
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
    """The servers of vLLM: on a CPU by replica, on a cluster's GPUs each on some of its own."""
    found = servers(config, policies)
    node = "this" if config.cluster.name == "local" else _node(config.cluster.engine_node)
    if need.on_gpu:
        held = int(config.engine.memory_fraction * gpu_bytes())
        for server in found:
            if not server.replica:
                count, width = server.engine.replicas, server.engine.tensor_parallel
                name = f"engine on {width} GPU{'s' if width > 1 else ''}, each"
                name = f"{count} x {name}" if count > 1 else name
                yield Place(name, node, "", f"{', '.join(server.policies)} (vllm)", held, held, held)
        return
    most = max((server.replica for server in found), default=0)
    for replica in sorted({server.replica for server in found}):
        sampled = ", ".join(name for each in found if each.replica == replica for name in each.policies)
        name = f"replica {replica}" if most else "engines"
        held = need.replicas[replica]
        yield Place(f"vLLM's processes ({name})", node, "", sampled, held, held, held)


def _actors(config: Config, count: int) -> Iterator[Place]:
    cluster = config.cluster
    each = -(-in_flight(config) // count)
    yield Place(
        f"environments, at most {count:,} x {each:,}",
        f"{_node(cluster.env_node)} ({cluster.env_cpus:g} CPU each)",
    )


def _node(resource: str) -> str:
    return f"any with {resource}" if resource else "any"
