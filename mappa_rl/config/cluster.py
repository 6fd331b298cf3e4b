"""Where the processes of a run are."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from mappa_rl.config.base import Count, Positive, Section

Cpus = Annotated[float, Field(ge=0.0001, allow_inf_nan=False)]
"""CPUs that Ray reserves. It counts in units of 0.0001, refuses less, and drops what is finer."""


class Cluster(Section):
    """Where the processes of a run are (docs/cluster.md). All keys except ``name`` are for ray only."""

    name: Literal["local", "ray"] = "local"
    """``local``: all on this machine; ``ray``: environments, engines of vllm, further learner processes and
    a model as coach are actors, which Ray places on its nodes."""
    address: str = ""
    """Address of the cluster's head, ``host:port``; empty: that in RAY_ADDRESS, else a head of the run's own
    on this machine."""
    env_workers: Annotated[int, Field(ge=0)] = 0
    """Most processes that play environments; they start as episodes need them. 0: as many as the episodes
    in flight need; with a head of the run's own at most as many as this machine has CPUs for."""
    envs_per_worker: Count = 8
    """Environments that such a process plays side by side."""
    env_cpus: Cpus = 1.0
    """CPUs that Ray reserves for such a process."""
    env_node: str = ""
    """Custom resource of the nodes for environments: each such process takes one unit. Empty: any node."""
    engine_cpus: Cpus = 1.0
    """CPUs that Ray reserves for an engine of vllm; with GPUs it also gets ``engine.tensor_parallel`` of
    them."""
    engine_node: str = ""
    """Custom resource of the nodes for engines of vllm: each takes one unit. Empty: any node."""
    learner_cpus: Cpus = 1.0
    """CPUs that Ray reserves for each further process that trains (``run.processes``, ``placement.crews``);
    with GPUs also one of them."""
    learner_node: str = ""
    """Custom resource of the nodes for further processes that train: each takes one unit. Empty: any node,
    also one that an engine over several GPUs needs whole."""
    restarts: Annotated[int, Field(ge=0)] = 3
    """How often the processes that train may start again from the last checkpoint when one of them has died,
    without a newer checkpoint in between."""
    moves: Annotated[int, Field(ge=0)] = 3
    """How often an episode may move to another process, which plays it again, when its own has died."""
    placement_s: Positive = 300.0
    """Seconds to wait for the nodes that a process needs, and for it to start."""

    def learner_wish(self, gpu: bool) -> dict[str, float]:
        """What Ray reserves for a further process that trains."""
        return _wish(self.learner_cpus, float(gpu), self.learner_node)

    def engine_wish(self, gpus: int) -> dict[str, float]:
        """What Ray reserves for an engine over so many GPUs, all on one node."""
        return _wish(self.engine_cpus, float(gpus), self.engine_node)

    def env_wish(self) -> dict[str, float]:
        """What Ray reserves for a process that plays environments."""
        return _wish(self.env_cpus, 0.0, self.env_node)


def _wish(cpus: float, gpus: float, node: str) -> dict[str, float]:
    return {"CPU": cpus, **({"GPU": gpus} if gpus else {}), **({node: 1.0} if node else {})}
