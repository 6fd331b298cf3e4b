"""Whether the learner and the engines have GPUs of this machine, and which they can share."""

from __future__ import annotations

from collections.abc import Iterator

from mappa_rl.config import Config, Engine
from mappa_rl.crews.roster import crews_of
from mappa_rl.models.policy_map import PolicyMap
from mappa_rl.training.preflight.problem import Problem


def placement_problems(config: Config, policies: PolicyMap) -> list[Problem]:
    """Learner and engines on GPUs that they cannot share, or that are not there."""
    import torch

    on_cluster = config.cluster.name == "ray"  # whose GPUs Ray hands out
    if on_cluster or not torch.cuda.is_available():  # the engine's own check refuses `devices` then
        return []
    return [Problem("engine", message) for message in _found(config, policies, torch.cuda.device_count())]


def _found(config: Config, policies: PolicyMap, count: int) -> Iterator[str]:
    each = config.run.processes
    crews = 1 + max(crews_of(config.placement.crews, policies).values(), default=0)
    taken = crews * each
    asked = f"run.processes={each}" if crews == 1 else f"run.processes={each} in each of {crews} crews"
    if taken > count:
        fewer = (
            f"run.processes={count} or fewer"
            if crews == 1
            else "fewer processes, or placement.crews=together"
        )
        yield f"{asked} needs a GPU for each process, but this machine has {count}: use {fewer}."
    engines = _engines(config, policies)
    for key, engine in engines.items():
        if missing := [device for device in engine.devices if device >= count]:
            yield (
                f"{key}.devices={engine.devices} names GPU {missing[0]}, but there are only 0 to {count - 1}."
            )
        if both := [device for device in engine.devices if device < taken]:
            yield (
                f"{key}.devices={engine.devices} and the learner both use GPU {both[0]}: {asked} takes the "
                f"GPUs 0 to {taken - 1}. List GPUs from {taken} on, or none with engine.sleep=true, which "
                "makes one process and its engine take turns on a GPU."
            )
    near = [key for key, engine in engines.items() if not engine.devices]
    if near and len(near) < len(engines):
        yield (
            f"{near[0]}.devices is empty, which means the learner's GPU, but other engines have GPUs of "
            "their own: list GPUs for all engines, or for none."
        )
    elif near and config.engine.name == "vllm" and each > 1 and config.policies.map != "lora":
        yield (
            f"{near[0]}.devices is empty, so the engine shares the learner's first GPU, but {asked}: vLLM "
            "takes whole weights from its own GPU (CUDA IPC) only of a learner of one process. List GPUs "
            f"from {taken} on in {near[0]}.devices, or use run.processes=1 or policies.map=lora, whose "
            "adapters are sent as files."
        )


def _engines(config: Config, policies: PolicyMap) -> dict[str, Engine]:
    """Key -> the engines of one policy, or of all policies that have none of their own."""
    own = [name for name in policies.names if name in config.placement.engines]
    found = {f"placement.engines.{name}": config.engine_of(name) for name in own}
    return found if len(own) == len(policies.names) else {"engine": config.engine, **found}
