"""Memory and disk that a run needs, against what is free on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from mappa_rl.config import Config
from mappa_rl.crews.roster import crews_of
from mappa_rl.disk import free_disk, size_of
from mappa_rl.models.policy_map import PolicyMap
from mappa_rl.models.shape import Shape
from mappa_rl.training.preflight.measured import HELPERS, MB, PROCESS
from mappa_rl.training.preflight.model import LARGE
from mappa_rl.training.preflight.problem import Problem
from mappa_rl.training.preflight.wishes import head_is_here

if TYPE_CHECKING:
    from mappa_rl.training.preflight.memory import Memory

ASSUMED_GPU = 80 * 10**9
"""Bytes of a GPU, where there is none to ask."""
MEMORY_FILE = Path("/proc/meminfo")


@dataclass(frozen=True, slots=True)
class Footprint:
    """What one run takes. ``on_gpu``: ``memory`` is that of each GPU; ``shared``: vLLM runs on it too.

    ``memory``: of each of the ``processes`` of crew 0, from when the policies start; ``crews``: of each of as
    many processes of every other crew. ``warm``: bytes of the warm start in the first process, before that.
    ``replicas``: bytes of vLLM's processes on a CPU, for each replica.
    """

    memory: Memory
    processes: int
    warm: int
    replicas: Sequence[int]
    checkpoint: int
    disk: int
    """Bytes of one checkpoint, and of all that are there at once."""
    on_gpu: bool
    shared: bool
    crews: Sequence[Memory] = ()
    warm_disk: int = 0
    """Bytes of the warm start under way; gone before there is a checkpoint."""

    @property
    def engines(self) -> int:
        """Bytes of all of vLLM's processes on a CPU."""
        return sum(self.replicas)

    @property
    def peak(self) -> int:
        """The most that one process takes, of its GPU if it has one, its libraries aside."""
        return max(self.memory.peak, self.warm, *(crew.peak for crew in self.crews))

    @property
    def main(self) -> int:
        """The most main memory that all processes of the run take together."""
        crews = [self.memory, *self.crews]
        return HELPERS + self._main(self.processes, crews, self.engines)

    @property
    def leading(self) -> int:
        """The most main memory of the process that leads and of what it starts beside it."""
        return HELPERS + self._main(1, [self.memory], 0)

    @property
    def following(self) -> int:
        """The most main memory of another process that trains."""
        return max(self._main(1, [crew], 0, warm=0) for crew in (self.memory, *self.crews))

    def _main(self, each: int, crews: Sequence[Memory], engines: int, warm: int | None = None) -> int:
        libraries, host = each * len(crews) * PROCESS, each * sum(crew.host for crew in crews)
        if self.on_gpu:
            return libraries + host
        later = host + each * sum(crew.peak for crew in crews) + engines
        return libraries + max(self.warm if warm is None else warm, later)


def footprint(
    config: Config, shape: Shape, policies: PolicyMap, *, plays: bool = True, gpu: int | None = None
) -> Footprint:
    """The memory of each process, with a GPU of its own where the model is large, and the run's disk.

    ``plays`` False: nothing is generated. ``gpu``: bytes of each GPU where the run is to be on others than
    those of this machine, whatever the size of its model.
    """
    # Not at the top: torch, which it needs, costs commands two seconds.
    from mappa_rl.training.preflight.memory import (
        checkpoint_bytes,
        engine_bytes,
        estimate,
        warm_start_bytes,
        warm_start_disk,
    )

    on_gpu, engine = gpu is not None or (plays and on_gpus(config, policies, shape)), config.engine
    on_gpu = on_gpu or shape.parameters >= LARGE
    device = "cuda" if on_gpu else "cpu"
    near = config.cluster.name == "local" and not all(config.engine_of(p).devices for p in policies.names)
    shared = plays and on_gpu and engine.name == "vllm" and near
    each = partial(estimate, config, shape, policies, processes=config.run.processes, device=device)
    elsewhere = None if not plays or engine.name == "vllm" else 0
    memory = each(engine_bytes=int(engine.memory_fraction * (gpu or gpu_bytes())) if shared else elsewhere)
    others = sorted({*crews_of(config.placement.crews, policies).values()} - {0})
    crews = [each(engine_bytes=None, crew=crew) for crew in others]
    one, most = checkpoint_bytes(config, shape, policies), config.run.checkpoints_mb * MB
    disk = one * (config.run.keep_checkpoints + 1)
    replicas = engine_bytes(config, shape, policies) if plays and not on_gpu else ()
    warm = warm_start_bytes(config, shape, device) if plays else 0
    return Footprint(
        memory,
        config.run.processes,
        warm,
        replicas,
        one,
        min(disk, most or disk),
        on_gpu,
        shared,
        crews,
        warm_start_disk(config, shape) if plays else 0,
    )


def on_gpus(config: Config, policies: PolicyMap, shape: Shape | None) -> bool:
    """Whether a run needs GPUs: its model is large, or its engines are to use some by number."""
    large = shape is not None and shape.parameters >= LARGE
    return large or any(config.engine_of(name).devices for name in policies.names)


def resource_problems(
    config: Config, need: Footprint, out: Path, runs: int = 1, parallel: int = 1
) -> list[Problem]:
    """Where ``runs`` runs, ``parallel`` at a time, need more memory or disk than is free on this machine.

    The checkpoints that the run in ``out`` has already take no further room, and a warm start that is there
    takes no memory.
    """
    from mappa_rl.warmstart.unfinished import FOLDER as UNFINISHED  # as above
    from mappa_rl.warmstart.warmstart import FOLDER

    found, free = [], free_memory()
    if (out / FOLDER).is_dir():
        need = replace(need, warm=0, warm_disk=0)
    spread = config.cluster.name == "ray" and not head_is_here(config)
    wanted = (need.leading if spread else need.main) * min(runs, parallel)
    if free is not None and wanted > free:
        what = "for the process that leads, " if spread else ""
        nodes = " Or name a cluster with more nodes in cluster.address." if head_is_here(config) else ""
        found.append(
            Problem(
                "memory",
                f"about {gigabytes(wanted)} GB is required, {what}but only {gigabytes(free)} GB is free: "
                "lower optim.tokens_per_micro_batch, rollout.episodes_per_step, engine.kv_cache_mb, the "
                f"model's size or --parallel.{nodes}",
            )
        )
    most = config.run.checkpoints_mb * MB
    if most and 2 * need.checkpoint > most:
        found.append(
            Problem(
                "disk",
                f"run.checkpoints_mb={config.run.checkpoints_mb} must be at least "
                f"{-(-2 * need.checkpoint // MB)}, enough for two checkpoints: the old one is deleted "
                "after the new one is complete.",
            )
        )
    room, begun = free_disk(out), size_of(out / "checkpoints")
    # One is written before an old one is removed, except under a limit, which makes room first.
    saved = max(need.disk * runs - begun, 0 if most else need.checkpoint)
    warm = need.warm_disk * parallel - size_of(out / UNFINISHED)
    if max(saved, warm) > room:
        what, remedy = (
            "the checkpoints take",
            "lower run.keep_checkpoints, or choose another folder with out=",
        )
        if warm > saved:
            what, remedy = "saving the warm start takes", "free some, or choose another folder with out="
        elif begun:
            remedy = "free some"
        found.append(
            Problem(
                "disk",
                f"{what} about {gigabytes(max(saved, warm))} GB{' more' if begun else ''}, but only "
                f"{gigabytes(room)} GB is free in {out}: {remedy}.",
            )
        )
    return found


def process_problems(config: Config) -> list[Problem]:
    """Several processes, where the work is that of one."""
    count = config.run.processes
    if count == 1:
        return []
    return [
        Problem(
            "processes", f"run.processes={count}, but a replay learns in one process: set run.processes=1."
        )
    ]


def free_memory() -> int | None:
    """Bytes of main memory that are available; None where the system does not say."""
    try:
        lines = MEMORY_FILE.read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")), None)


def free_gpu_memory() -> int | None:
    """Bytes that are free on the first GPU; None without one."""
    import torch

    return torch.cuda.mem_get_info(0)[0] if torch.cuda.is_available() else None


def gigabytes(size: int) -> str:
    """``size`` bytes in GB, with three decimals below 0.1."""
    return f"{size / 1e9:,.1f}" if size >= 1e8 else f"{size / 1e9:.3f}"


def gpu_bytes() -> int:
    """Bytes of a GPU: the first one, or ``ASSUMED_GPU`` without one."""
    import torch

    return torch.cuda.get_device_properties(0).total_memory if torch.cuda.is_available() else ASSUMED_GPU
