"""Memory and disk that a run needs, against what is free on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from mappa_rl.config import Config
from mappa_rl.crews.roster import crews_of
from mappa_rl.disk import free_disk
from mappa_rl.models.policy_map import PolicyMap
from mappa_rl.models.shape import Shape
from mappa_rl.training.preflight.measured import HELPERS, MB, PROCESS
from mappa_rl.training.preflight.model import LARGE
from mappa_rl.training.preflight.problem import Problem

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
        libraries = self.processes * len(crews) * PROCESS + HELPERS
        host = self.processes * sum(crew.host for crew in crews)
        if self.on_gpu:
            return libraries + host
        later = host + self.processes * sum(crew.peak for crew in crews) + self.engines
        return libraries + max(self.warm, later)


def footprint(
    config: Config, shape: Shape, policies: PolicyMap, *, plays: bool = True, gpu: int | None = None
) -> Footprint:
    """The memory of each process, with a GPU of its own where the model is large, and the run's disk.

    ``plays`` False: nothing is generated. ``gpu``: bytes of each GPU where the run is to be on others than
    those of this machine, whatever the size of its model.
    """
    # Not at the top: torch, which it needs, costs commands two seconds.
    from mappa_rl.training.preflight.memory import checkpoint_bytes, engine_bytes, estimate, warm_start_bytes

    on_gpu, engine = gpu is not None or shape.parameters >= LARGE, config.engine
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
        memory, config.run.processes, warm, replicas, one, min(disk, most or disk), on_gpu, shared, crews
    )


def resource_problems(
    config: Config, need: Footprint, out: Path, runs: int = 1, parallel: int = 1
) -> list[Problem]:
    """Where ``runs`` runs, ``parallel`` at a time, need more memory or disk than is free."""
    found, free = [], free_memory()
    wanted = need.main * min(runs, parallel)
    if free is not None and wanted > free:
        found.append(
            Problem(
                "memory",
                f"about {gigabytes(wanted)} GB is required, but only {gigabytes(free)} GB is free: lower "
                "optim.tokens_per_micro_batch, rollout.episodes_per_step, engine.kv_cache_mb, the model's "
                "size or --parallel.",
            )
        )
    gpu = free_gpu_memory() if need.on_gpu else None
    if gpu is not None and need.peak > gpu:
        found.append(
            Problem(
                "memory",
                f"each GPU needs about {gigabytes(need.peak)} GB, but only {gigabytes(gpu)} GB is "
                "free: lower optim.tokens_per_micro_batch or engine.memory_fraction, or use optim.offload.",
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
    room = free_disk(out)
    if need.disk * runs > room:
        found.append(
            Problem(
                "disk",
                f"the checkpoints take about {gigabytes(need.disk * runs)} GB, but only {gigabytes(room)} GB "
                f"is free in {out}: lower run.keep_checkpoints, or choose another folder with out=.",
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
