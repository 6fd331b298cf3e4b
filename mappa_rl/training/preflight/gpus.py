"""Whether the learner and the engines have GPUs, which they can share, and whether these have the memory."""

from __future__ import annotations

from collections.abc import Iterator

from mappa_rl.config import Config, Engine
from mappa_rl.models.policy_map import PolicyMap
from mappa_rl.training.preflight.gpu import learning_gpus, local_gpus, needed_gpus
from mappa_rl.training.preflight.problem import Problem
from mappa_rl.training.preflight.resources import ASSUMED_GPU, Footprint, free_gpu_memory, gigabytes


def placement_problems(config: Config, policies: PolicyMap, on_gpus: bool) -> list[Problem]:
    """Learner and engines on GPUs that they cannot share, or that are not there.

    ``on_gpus``: the run needs GPUs. Without any here, all but their number is checked.
    """
    here = gpu_count()
    if config.cluster.name == "ray" or not (here or on_gpus):  # Ray hands out the GPUs of a cluster
        return []
    return [Problem("placement", message) for message in _found(config, policies, here)]


def memory_problems(config: Config, policies: PolicyMap, need: Footprint) -> list[Problem]:
    """GPUs on which there is not enough memory free for all that are on them."""
    free = free_gpu_memory()
    if free is None or not need.on_gpu:
        return []
    said = f"but only {gigabytes(free)} GB is free"
    return [Problem("memory", each) for each in _too_large(config, policies, need, free, said)]


def gpu_remarks(config: Config, policies: PolicyMap, need: Footprint) -> list[str]:
    """What a machine with GPUs would have to have, where this one has none."""
    if gpu_count() or not need.on_gpu:
        return []
    said = f"but a GPU is assumed to have {gigabytes(ASSUMED_GPU)} GB"
    found = list(_too_large(config, policies, need, ASSUMED_GPU, said))
    if config.cluster.name == "local":
        count = needed_gpus(config, policies)
        found.insert(0, f"the run needs a machine with at least {count} GPU{'s' if count > 1 else ''}.")
    return found


def gpu_count() -> int:
    """GPUs of this machine."""
    import torch

    return torch.cuda.device_count() if torch.cuda.is_available() else 0


def _too_large(config: Config, policies: PolicyMap, need: Footprint, limit: int, said: str) -> Iterator[str]:
    if config.cluster.name == "ray":
        peaks = {"each GPU that trains": need.peak}
    else:
        peaks = {f"GPU {each.index}": each.peak for each in local_gpus(config, policies, need)}
    large = {name: peak for name, peak in peaks.items() if peak > limit}
    for peak in dict.fromkeys(large.values()):
        names = [name for name in large if large[name] == peak]
        verb = "needs" if len(names) == 1 else "each need"
        yield (
            f"{', '.join(names)} {verb} about {gigabytes(peak)} GB for all that is on it, {said}: "
            f"{remedies(config, policies)}."
        )


def remedies(config: Config, policies: PolicyMap) -> str:
    """Settings with which a run takes less of its GPUs' memory, without those that it has."""
    engine, optim = config.engine, config.optim
    beside = engine.name == "vllm" and config.cluster.name == "local"
    near = beside and not all(config.engine_of(name).devices for name in policies.names)
    lower = ["optim.tokens_per_micro_batch", *(["engine.memory_fraction"] if beside else [])]
    stage = " optim.zero_stage=2" if optim.zero_stage == 3 else ""  # 3 has no use of adapters
    use = [
        ("optim.gradient_checkpointing=true", not optim.gradient_checkpointing),
        ("optim.offload=true", not optim.offload and optim.zero_stage),
        ("engine.sleep=true", near and not engine.sleep),
        (f"policies.map=lora{stage} (adapters on one base)", not policies.lora),
        ("policies.map=shared (one policy for all agents)", not policies.lora and len(policies.names) > 1),
    ]
    wanted = [text for text, helps in use if helps]
    return f"lower {' or '.join(lower)}" + (f", or use {', '.join(wanted)}" if wanted else "")


def _found(config: Config, policies: PolicyMap, count: int) -> Iterator[str]:
    """``count``: GPUs of this machine; 0: the run is for another one, whose GPUs nobody has counted."""
    from mappa_rl.engines.make import unplaced

    each = config.run.processes
    taken = learning_gpus(config, policies)
    crews = taken // each
    asked = f"run.processes={each}" if crews == 1 else f"run.processes={each} in each of {crews} crews"
    if count and taken > count:
        fewer = (
            f"run.processes={count} or fewer"
            if crews == 1
            else "fewer processes, or placement.crews=together"
        )
        yield f"{asked} needs a GPU for each process, but this machine has {count}: use {fewer}."
    engines = _engines(config, policies)
    if not count:  # elsewhere `check_engine` says it
        yield from filter(None, (unplaced(key, engine) for key, engine in engines.items()))
    for key, engine in engines.items():
        if count and (missing := [device for device in engine.devices if device >= count]):
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
