"""A GPU of this machine: who is on it, and the memory of all of them together."""

from __future__ import annotations

from dataclasses import dataclass

from mappa_rl.config import Config
from mappa_rl.crews.roster import crews_of
from mappa_rl.models.policy_map import PolicyMap
from mappa_rl.training.preflight.resources import Footprint, gpu_bytes
from mappa_rl.training.preflight.servers import Server, servers


@dataclass(frozen=True, slots=True)
class Gpu:
    """GPU ``index``. Bytes at ``start``, in ``generation`` and in ``training``, and the ``peak`` of all.

    ``crew``: whose process is on it; None: no learner's. ``servers``: of vLLM, that are on it, too.
    """

    index: int
    crew: int | None
    servers: tuple[Server, ...]
    start: int
    generation: int
    training: int
    peak: int


def learning_gpus(config: Config, policies: PolicyMap) -> int:
    """Processes that train, in all crews; with ``cluster=local`` they are on the GPUs from 0 on."""
    crews = 1 + max(crews_of(config.placement.crews, policies).values(), default=0)
    return crews * config.run.processes


def needed_gpus(config: Config, policies: PolicyMap) -> int:
    """How many GPUs a machine must have, for all that ``cluster=local`` names by number."""
    named = (device for name in policies.names for device in config.engine_of(name).devices)
    return max(learning_gpus(config, policies), 1 + max(named, default=0))


def local_gpus(config: Config, policies: PolicyMap, need: Footprint) -> list[Gpu]:
    """Every GPU that a run with ``cluster=local`` uses, once."""
    from mappa_rl.engines.make import sharing

    found, each = servers(config, policies), need.processes
    taken, devices = learning_gpus(config, policies), [server.devices for server in found]
    gpus = []
    for index in sorted({*range(taken), *(device for named in devices for device in named)}):
        there = tuple(each for each in found if index in (each.devices or [0]))
        own = [server for server in there if server.devices]
        held = sum(
            int(server.engine.memory_fraction * gpu_bytes() / sharing(server.devices, devices))
            for server in own
        )
        crew = index // each if index < taken else None
        gpus.append(_gpu(config, need, index, crew, there, held))
    return gpus


def _gpu(
    config: Config, need: Footprint, index: int, crew: int | None, there: tuple[Server, ...], held: int
) -> Gpu:
    """``held``: bytes of the servers that name this GPU; one on the learner's is a part of its footprint."""
    trained = 0 if config.engine.sleep else held
    if crew is None:
        return Gpu(index, None, there, held, held, trained, held)
    memory = need.crews[crew - 1] if crew else need.memory
    leads = index == 0
    own = memory.generation if leads and (need.shared or config.engine.name == "hf") else 0
    start = max(memory.start, need.warm if leads else 0, memory.held + held + (own if need.shared else 0))
    generation = memory.held + held + own + (memory.transfer if leads else 0)
    training = memory.training + trained + (own if memory.apart else 0)
    peak = max(start, generation, training, memory.peak)
    return Gpu(index, crew, there, start, generation, training, peak)
