"""The training backend: DeepSpeed, set up so that one process needs neither a launcher nor a compiler."""

from __future__ import annotations

import atexit
import importlib
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from mappa_rl.errors import LearnerError


def world() -> tuple[int, int]:
    """This process's rank and the number of processes; (0, 1) without torch.distributed."""
    return (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)


def device() -> torch.device:
    """Where this process computes: the GPU of its local rank, or the CPU."""
    if not torch.cuda.is_available():
        return torch.device("cpu")
    return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))


def all_sum(*values: float) -> list[float]:
    """Sums over all processes, in float64."""
    if world()[1] == 1:
        return list(values)
    tensor = torch.tensor(values, dtype=torch.float64, device=_device())
    dist.all_reduce(tensor)
    return [float(value) for value in tensor]


def all_max(value: int) -> int:
    """The largest of all processes' values, whole numbers below 2^53."""
    return int(all_peak(value))


def all_peak(value: float) -> float:
    """The largest of all processes' values."""
    if world()[1] == 1:
        return value
    tensor = torch.tensor(value, dtype=torch.float64, device=_device())
    dist.all_reduce(tensor, op=dist.ReduceOp.MAX)
    return float(tensor)


def join() -> None:
    """Be one of the processes that a launcher has started, or the only one."""
    _deepspeed()


def all_states(mine: Any) -> list[Any]:
    """What every process has, by rank; picklable, and from this run's own processes alone."""
    found: list[Any] = [None] * world()[1]
    if world()[1] == 1:
        return [mine]
    dist.all_gather_object(found, mine)
    return found


def barrier() -> None:
    """Wait for all processes."""
    if world()[1] > 1:
        dist.barrier()


def make_engine(
    module: nn.Module,
    *,
    betas: tuple[float, float],
    weight_decay: float,
    grad_clip: float,
    zero_stage: int,
    offload: bool = False,
) -> Any:
    """A DeepSpeed engine with AdamW around ``module``; the learning rate is set by the caller, per step.

    bfloat16 parameters get fp32 master weights. ``offload`` keeps those and the optimizer's moments in main
    memory. ``grad_clip`` is applied by DeepSpeed from stage 1; at stage 0 clipping is the caller's (DeepSpeed
    would not report the norm there). At stage 3 parameters are empty outside of ``module``'s own passes and
    of ``gathered``. Starts torch.distributed for one process if nobody has.
    """
    if zero_stage not in (0, 1, 2, 3):
        raise LearnerError(f"zero_stage={zero_stage} is not offered; use 0, 1, 2 or 3.")
    parameters = [parameter for parameter in module.parameters() if parameter.requires_grad]
    half = parameters[0].dtype == torch.bfloat16
    if half and zero_stage == 0:
        raise LearnerError("bfloat16 weights need zero_stage >= 1: stage 0 keeps no fp32 copy of its own.")
    if offload and zero_stage == 0:
        raise LearnerError("offload=True needs zero_stage >= 1: stage 0 leaves the optimizer where it is.")
    deepspeed = _deepspeed()
    zero: dict[str, Any] = {"stage": zero_stage}
    if offload:
        zero["offload_optimizer"] = {"device": "cpu"}
    if zero_stage == 3:
        zero["memory_efficient_linear"] = False  # it would replace F.linear for the whole process
    config = {
        "train_micro_batch_size_per_gpu": 1,
        "gradient_accumulation_steps": 1,  # boundaries are marked by hand
        "gradient_clipping": grad_clip if zero_stage else 0.0,
        "zero_optimization": zero,
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,  # DeepSpeed's own would be compiled for minutes on first use
        "bf16": {"enabled": half},
        "steps_per_print": 10**9,
    }
    optimizer = torch.optim.AdamW(parameters, lr=0.0, betas=betas, weight_decay=weight_decay, fused=True)
    engine, *_ = deepspeed.initialize(model=module, optimizer=optimizer, config=config)
    return engine


def scattered(module: nn.Module) -> bool:
    """Whether the processes hold parts of the parameters, whole only while they are used (stage 3)."""
    return any(hasattr(parameter, "ds_id") for parameter in module.parameters())


@contextmanager
def gathered(module: nn.Module) -> Iterator[None]:
    """Parameters are whole in here, also where stage 3 scatters them. All processes enter; do not write."""
    if not scattered(module):
        yield
        return
    with _deepspeed().zero.GatheredParameters(list(module.parameters())):
        yield


def _deepspeed() -> Any:
    """Import DeepSpeed and start torch.distributed, once."""
    if not torch.cuda.is_available():
        os.environ.setdefault("DS_ACCELERATOR", "cpu")
    deepspeed = importlib.import_module("deepspeed")
    logging.getLogger("DeepSpeed").setLevel(logging.WARNING)
    # The shared-memory collectives would be compiled for minutes on first use; gloo is there already.
    importlib.import_module("deepspeed.ops").__compatible_ops__["deepspeed_shm_comm"] = False
    if not dist.is_initialized():  # else it is the caller's, or ours already
        atexit.register(_leave)
        if "RANK" not in os.environ:
            backend = "nccl" if torch.cuda.is_available() else "gloo"
            dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1)
    os.environ.setdefault("LOCAL_RANK", "0")  # DeepSpeed reads it even where there is no launcher
    deepspeed.init_distributed(auto_mpi_discovery=False, verbose=False)
    return deepspeed


def _leave() -> None:
    """Join the group's threads: an interpreter that ends while they run may abort."""
    if dist.is_initialized():
        dist.destroy_process_group()


def _device() -> torch.device:
    return torch.device("cuda" if dist.get_backend() == "nccl" else "cpu")
