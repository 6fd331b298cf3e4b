"""What a run asks of a cluster against what its nodes have, as far as that is known without asking them."""

from __future__ import annotations

import os
from collections.abc import Iterator

from mappa_rl.cluster.session import check_ray
from mappa_rl.config import Config
from mappa_rl.models.policy_map import PolicyMap
from mappa_rl.training.preflight.problem import Problem, problems_of
from mappa_rl.training.preflight.wishes import head_is_here, wishes

LESS = {
    "CPU": "cluster.env_workers, cluster.env_cpus, run.processes or engine.replicas",
    "GPU": "run.processes, engine.replicas or engine.tensor_parallel",
}
"""Resource -> the settings that ask for it."""


def cluster_problems(config: Config) -> list[Problem]:
    """Ray, where the run is to be on a cluster of it and it is not installed."""
    return [] if config.cluster.name == "local" else problems_of("cluster", check_ray)


def wish_problems(config: Config, policies: PolicyMap, on_gpus: bool) -> list[Problem]:
    """What a head of the run's own, on this machine alone, will never have. Other clusters are not asked."""
    if not head_is_here(config):
        return []
    return [Problem("cluster", message) for message in _missing(config, policies, on_gpus)]


def cluster_remarks(config: Config, policies: PolicyMap, on_gpus: bool) -> list[str]:
    """What a cluster must have, which is not asked here, and what Ray does not know."""
    if config.cluster.name == "local":
        return []
    found = []
    if not head_is_here(config):
        asked = "; ".join(map(str, wishes(config, policies, on_gpus)))
        found.append(
            f"the cluster was not asked. The run will ask it for {asked}. Each needs all on one node."
        )
    if on_gpus and not head_is_here(config):
        found.append(
            "the process that leads uses GPU 0 of this machine, of which Ray does not know: start Ray here "
            "with the others (CUDA_VISIBLE_DEVICES=1,2,... ray start), or keep other processes off this "
            "machine with cluster.engine_node and "
            "cluster.learner_node."
        )
    return found


def _missing(config: Config, policies: PolicyMap, on_gpus: bool) -> Iterator[str]:
    import torch

    leads = min(torch.cuda.device_count(), 1)  # the process that leads takes the first for itself
    here = {"CPU": os.cpu_count() or 1, "GPU": torch.cuda.device_count() - leads}
    asked = list(wishes(config, policies, on_gpus))
    for name in dict.fromkeys(resource for wish in asked for resource in wish.each):
        who = [wish for wish in asked if name in wish.each]
        total = sum(wish.count * wish.each[name] for wish in who)
        if total <= here.get(name, 0):
            continue
        remedy = f"or ask for less with {LESS[name]}" if name in LESS else "or leave this resource out"
        besides = " besides the leading process's" if name == "GPU" and leads else ""
        yield (
            f"the run asks for {total:g} {name} at once ({'; '.join(map(str, who))}), but without "
            f"cluster.address it starts a head of its own on this machine, which has {here.get(name, 0):g} "
            f"{name}{besides} and stays the only node: name a cluster in cluster.address, {remedy}."
        )
