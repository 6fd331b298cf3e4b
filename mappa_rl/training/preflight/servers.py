"""The servers of vLLM that a run will start."""

from __future__ import annotations

from dataclasses import dataclass

from mappa_rl.config import Config, Engine
from mappa_rl.models.policy_map import PolicyMap


@dataclass(frozen=True, slots=True)
class Server:
    """One server of the ``policies``: their only one, or one of ``engine.replicas``."""

    policies: tuple[str, ...]
    engine: Engine
    replica: int

    @property
    def devices(self) -> list[int]:
        """Its GPUs; empty: the learner's, or those that Ray chooses."""
        return self.engine.devices_of(self.replica)


def servers(config: Config, policies: PolicyMap) -> list[Server]:
    """All servers, the first replicas first: one per policy, or per base that adapters share."""
    if config.engine.name != "vllm":
        return []
    groups = {name: [name] for name in policies.names}
    if policies.lora:
        groups = {}
        for name in policies.names:
            groups.setdefault(config.policies.models.get(name, config.model.kind), []).append(name)
    found = [(tuple(names), config.engine_of(names[0])) for names in groups.values()]
    most = max(engine.replicas for _, engine in found)
    return [
        Server(names, engine, replica)
        for replica in range(most)
        for names, engine in found
        if replica < engine.replicas
    ]
