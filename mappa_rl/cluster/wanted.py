"""What Ray reserves for each kind of actor."""

from __future__ import annotations

from mappa_rl.config import Cluster


def by_environments(cluster: Cluster) -> dict[str, float]:
    """Of a worker that plays environments."""
    return {"CPU": cluster.env_cpus, **_node(cluster.env_node)}


def by_training(cluster: Cluster) -> dict[str, float]:
    """Of a process that trains: a GPU, too, if this machine has any."""
    import torch

    return {"CPU": cluster.learner_cpus, **({"GPU": 1.0} if torch.cuda.is_available() else {})}


def by_engine(cluster: Cluster, gpus: int) -> dict[str, float]:
    """Of an engine of vLLM."""
    return {
        "CPU": cluster.engine_cpus,
        **({"GPU": float(gpus)} if gpus else {}),
        **_node(cluster.engine_node),
    }


def _node(resource: str) -> dict[str, float]:
    return {resource: 1.0} if resource else {}
