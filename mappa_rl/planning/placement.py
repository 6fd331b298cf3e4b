"""A placement: which GPUs train and which generate, as settings that exist."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from mappa_rl.config import Config
from mappa_rl.models.policy_map import PolicyMap
from mappa_rl.planning.machines import Machines

WIDTHS = (1, 2, 4, 8)
"""GPUs of an engine that are tried."""
JOINED = "auto"
"""Address by which Ray finds the cluster that was started on the same node."""


@dataclass(frozen=True, slots=True)
class Placement:
    """Attributes:
    crews: Crews, which train at the same time: one, or one for each trained policy (``placement.crews``).
    learners: GPUs of each crew (``run.processes``).
    zero_stage, offload: As in ``optim``.
    engine: ``hf`` or ``vllm``, as the recipe says.
    tensor_parallel, replicas: As in ``engine``.
    servers: Engines of one replica: one per policy, or one for a shared policy or for all adapters.
    shares: The engine is on the first learner's GPU.
    ray: Ray places the processes.
    staleness: As in ``rollout``.
    """

    crews: int
    learners: int
    zero_stage: int
    offload: bool
    engine: str
    tensor_parallel: int
    replicas: int
    servers: int
    shares: bool
    ray: bool
    staleness: int

    @property
    def apart(self) -> bool:
        """Whether each server has GPUs of its own; else the servers of a replica take turns on theirs."""
        return self.ray and self.engine == "vllm"

    @property
    def engine_gpus(self) -> int:
        """GPUs that only generate."""
        groups = self.replicas * (self.servers if self.apart else 1)
        return 0 if self.shares else groups * self.tensor_parallel

    @property
    def training(self) -> int:
        """GPUs that train, in all crews."""
        return self.crews * self.learners

    @property
    def gpus(self) -> int:
        """GPUs in all."""
        return self.training + self.engine_gpus

    def overrides(self, recipe: Config, machines: Machines) -> list[str]:
        """The settings in which the placement differs from the recipe."""
        wanted: dict[str, object] = {
            "cluster.name": "ray" if self.ray else "local",
            "placement.crews": "apart" if self.crews > 1 else "together",
            "run.processes": self.learners,
            "optim.zero_stage": self.zero_stage,
            "optim.offload": self.offload,
            "rollout.staleness": self.staleness,
        }
        if self.engine == "vllm":
            own = not (self.shares or self.ray)
            wanted |= {
                "engine.tensor_parallel": self.tensor_parallel,
                "engine.replicas": self.replicas,
                "engine.devices": list(range(self.training, self.gpus)) if own else [],
                "engine.sleep": self.shares and not self.staleness,
            }
            if self.shares:
                wanted["engine.memory_fraction"] = min(recipe.engine.memory_fraction, 0.5)
        if self.ray:
            wanted["cluster.address"] = recipe.cluster.address or JOINED
            wanted["cluster.env_workers"] = self.env_workers(recipe, machines)
        if self.keeps_nodes(machines):
            wanted["cluster.learner_node"], wanted["cluster.engine_node"] = self.node_resources(recipe)
        return [f"{key}={_text(value)}" for key, value in wanted.items() if _value(recipe, key) != value]

    def keeps_nodes(self, machines: Machines) -> bool:
        """Whether engines need nodes of their own: Ray puts a learner on any node with a free GPU.

        It reserves room for them before the engines start, and an engine over several GPUs has no use of
        those that are left on different nodes.
        """
        return self.apart and self.tensor_parallel > 1 and machines.nodes > 1

    def learner_nodes(self, machines: Machines) -> int:
        """Nodes for all that train."""
        return -(-self.training // machines.gpus_per_node)

    def engine_nodes(self, machines: Machines) -> int:
        """Nodes for all engines."""
        return -(-self.replicas * self.servers // (machines.gpus_per_node // self.tensor_parallel))

    def node_resources(self, recipe: Config) -> tuple[str, str]:
        """Custom resources of the nodes that train and of those that generate."""
        return recipe.cluster.learner_node or "learners", recipe.cluster.engine_node or "engines"

    def in_flight(self, recipe: Config) -> int:
        """Episodes under way at once."""
        return recipe.rollout.episodes_per_step * (1 + self.staleness)

    def env_workers(self, recipe: Config, machines: Machines) -> int:
        """Processes that play environments: enough for the episodes, but not for more than the sandboxes."""
        episodes = self.in_flight(recipe)
        places = min(episodes, machines.sandboxes or episodes)
        return -(-places // recipe.cluster.envs_per_worker)


def placements(
    config: Config,
    policies: PolicyMap,
    machines: Machines,
    staleness: int,
    widths: Sequence[int] = WIDTHS,
) -> Iterator[Placement]:
    """Placements of a recipe that its settings can express, on at most ``machines.gpus`` GPUs.

    Several nodes need Ray. ``policies.map`` and the engine stay as they are. ``staleness``: the most that is
    tried; between 8 and that, in steps as ``handy`` has. ``widths``: GPUs over which an engine can spread the
    models. Policies train one after another, or all at once in crews. Whether memory suffices is not asked.
    """
    ray = machines.nodes > 1 or config.cluster.name == "ray"
    servers = _servers(policies)
    widths = [width for width in widths if width <= machines.gpus_per_node]
    stages = [0] if config.optim.dtype == "fp32" else []
    stages += [1, 2] if policies.lora or config.engine.name == "hf" else [1, 2, 3]
    late = sorted({0, config.rollout.staleness, staleness, *handy(staleness)})
    modes = [(stage, offload) for stage in stages for offload in ((False, True) if stage else (False,))]
    for steps, (crews, learners) in product(late, _crews(policies, machines)):
        engines = _engines(config, policies, machines, crews, learners, ray, widths)
        for (stage, offload), (width, replicas, shares) in product(modes, engines):
            yield Placement(
                crews,
                learners,
                stage,
                offload,
                config.engine.name,
                width,
                replicas,
                servers,
                shares,
                ray,
                steps,
            )


def _servers(policies: PolicyMap) -> int:
    """Engines of one replica."""
    return 1 if policies.lora else len(policies.names)


def _crews(policies: PolicyMap, machines: Machines) -> Iterator[tuple[int, int]]:
    """Crews, and the GPUs of each."""
    for crews in sorted({1, max(len(policies.trainable), 1)}):
        yield from ((crews, learners) for learners in handy(machines.gpus // crews))


def handy(most: int) -> Iterator[int]:
    """1 to 8, then in steps of an eighth to a quarter, so that more GPUs only add numbers to try."""
    number = 1
    while number <= most:
        yield number
        number += max(1, 1 << (number.bit_length() - 3) if number.bit_length() > 3 else 1)


def _engines(
    config: Config,
    policies: PolicyMap,
    machines: Machines,
    crews: int,
    learners: int,
    ray: bool,
    widths: Sequence[int],
) -> Iterator[tuple[int, int, bool]]:
    """``tensor_parallel``, ``replicas`` and whether they share the first learner's GPU."""
    if config.engine.name == "hf":
        yield 1, 1, True
        return
    if not ray and (learners == 1 or policies.lora):
        yield 1, 1, True
    groups = _servers(policies) if ray else 1
    for width in widths:
        left = machines.gpus - crews * learners
        if width > 1 and machines.nodes > 1:  # an engine is on one node, without learners (`keeps_nodes`)
            left = left // machines.gpus_per_node * (machines.gpus_per_node // width) * width
        yield from ((width, replicas, False) for replicas in handy(left // (width * groups)))


def _value(config: Config, key: str) -> object:
    section, name = key.split(".")
    return getattr(getattr(config, section), name)


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value).replace(" ", "")
