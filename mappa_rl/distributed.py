"""The training backend: DeepSpeed, set up so that one process needs neither a launcher nor a compiler."""

from __future__ import annotations

import atexit
import importlib
import logging
import os
import socket
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.constants import default_pg_timeout

from mappa_rl.errors import LearnerError

REDUCE_BUCKET = 2**25
"""Gradients that ZeRO reduces at once, in numbers. At stage 3 every policy keeps a buffer of this size, and
DeepSpeed's default, 5e8, would be 1 GB of bf16."""

_LAST_TENSORS_S = 0.05
"""The threads need microseconds, and the share of a core that a busy machine gives them."""


def world() -> tuple[int, int]:
    """This process's rank and the number of processes; (0, 1) without torch.distributed."""
    return (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)


def device() -> torch.device:
    """Where this process computes: the GPU of its local rank, or the CPU."""
    if not torch.cuda.is_available():
        return torch.device("cpu")
    return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))


def free_cached() -> None:
    """Give the GPU memory that torch holds for later, and nothing uses, back to other processes."""
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


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
    """Join the processes that a launcher has started; without a launcher, be the only one."""
    _deepspeed()


def join_by_file(path: Path, rank: int, count: int) -> None:
    """Be process ``rank`` of ``count`` that meet at the new file ``path``, which all of them see."""
    _join(dist.FileStore(str(path), count), rank, count)  # type: ignore[attr-defined]


def join_at(meet: tuple[str, int], rank: int, count: int) -> None:
    """Be process ``rank`` of ``count``, not the first, that meet at address and port ``meet``."""
    _join(_store(meet, count), rank, count)


def join_first(held: socket.socket, count: int) -> None:
    """Be the first of ``count`` processes, which meet at the port that ``held`` is bound to; takes it over.

    The port is never free in between, so no other program can take it.
    """
    meet: tuple[str, int] = held.getsockname()
    _join(_store(meet, count, held.detach()), 0, count)


def barrier() -> None:
    """Wait for all processes."""
    if world()[1] > 1:
        dist.barrier()


def deepspeed_engine(
    module: nn.Module,
    *,
    betas: tuple[float, float],
    weight_decay: float,
    grad_clip: float,
    zero_stage: int,
    offload: bool,
) -> Any:
    """Wrap ``module`` in a DeepSpeed engine with AdamW; the caller sets the learning rate at every step.

    bfloat16 parameters get fp32 master weights. ``offload`` keeps those and the optimizer's moments in main
    memory. DeepSpeed applies ``grad_clip`` from stage 1 on; at stage 0 the caller clips, because DeepSpeed
    does not report the norm there. At stage 3 parameters are empty outside of ``module``'s own passes and of
    ``gathered``. Starts torch.distributed for one process if it is not running.

    Raises LearnerError for settings that do not fit together.
    """
    if zero_stage not in (0, 1, 2, 3):
        raise LearnerError(f"zero_stage={zero_stage} is not supported; use 0, 1, 2 or 3.")
    parameters = [parameter for parameter in module.parameters() if parameter.requires_grad]
    half = parameters[0].dtype == torch.bfloat16
    if half and zero_stage == 0:
        raise LearnerError("bfloat16 weights need zero_stage >= 1: stage 0 keeps no fp32 copy.")
    if offload and zero_stage == 0:
        raise LearnerError("offload=True needs zero_stage >= 1: stage 0 leaves the optimizer where it is.")
    deepspeed = _deepspeed()
    zero: dict[str, Any] = {"stage": zero_stage, "reduce_bucket_size": REDUCE_BUCKET}
    if offload:
        zero["offload_optimizer"] = {"device": "cpu"}
    if zero_stage == 3:
        zero["memory_efficient_linear"] = False  # it would replace F.linear for the whole process
    config = {
        "train_micro_batch_size_per_gpu": 1,
        "gradient_accumulation_steps": 1,  # the learner marks the boundaries itself
        "gradient_clipping": grad_clip if zero_stage else 0.0,
        "zero_optimization": zero,
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,  # DeepSpeed's own takes minutes to compile on first use
        "bf16": {"enabled": half},
        "steps_per_print": 10**9,
    }
    optimizer = torch.optim.AdamW(parameters, lr=0.0, betas=betas, weight_decay=weight_decay, fused=True)
    engine, *_ = deepspeed.initialize(model=module, optimizer=optimizer, config=config)
    return engine


def scatter(parameter: nn.Parameter) -> None:
    """Leave every process a part of ``parameter``, as stage 3 does. All processes call it with equal values.

    A model made of such parameters is ready for ``deepspeed_engine``.
    """
    holder = nn.Module()
    holder.register_parameter("parameter", parameter)
    _deepspeed().zero.Init(module=holder, mem_efficient_linear=False, dtype=parameter.dtype)


def scattered(module: nn.Module) -> bool:
    """Whether each process holds only a part of every parameter, except while it is used (stage 3)."""
    return any(hasattr(parameter, "ds_id") for parameter in module.parameters())


@contextmanager
def gathered(module: nn.Module) -> Iterator[None]:
    """Make the parameters whole inside the block, also at stage 3. All processes enter; do not write."""
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
    # DeepSpeed calls what newer versions of torch name otherwise; every process would say so.
    warnings.filterwarnings("ignore", r"`torch\.distributed\.\w+` is deprecated", FutureWarning)
    # The shared-memory collectives take minutes to compile on first use; gloo comes with torch.
    importlib.import_module("deepspeed.ops").__compatible_ops__["deepspeed_shm_comm"] = False
    if not dist.is_initialized():  # otherwise the caller, or an earlier call, has started it
        if os.environ.get("WORLD_SIZE", "1") == "1":
            _join(dist.HashStore(), 0, 1)  # type: ignore[attr-defined]
        else:
            atexit.register(_leave)
    os.environ.setdefault("LOCAL_RANK", "0")  # DeepSpeed reads it even without a launcher
    deepspeed.init_distributed(auto_mpi_discovery=False, verbose=False)
    return deepspeed


def _store(meet: tuple[str, int], count: int, held: int | None = None) -> Any:
    """Where processes find each other; its server is the one that has the socket ``held``."""
    return dist.TCPStore(  # type: ignore[attr-defined]
        *meet, count, held is not None, default_pg_timeout, wait_for_workers=False, master_listen_fd=held
    )


def _join(store: Any, rank: int, count: int) -> None:
    atexit.register(_leave)
    backend = "nccl" if torch.cuda.is_available() else "gloo"
    dist.init_process_group(backend, store=store, rank=rank, world_size=count)


def _leave() -> None:
    """End the threads of all groups, or let them finish: an interpreter that ends meanwhile aborts.

    The threads of a group that DeepSpeed's engines still hold outlive it, and nothing says when they rest. A
    thread of gloo's frees the tensors of its last operation after it has reported the result, and takes
    Python's lock for that.
    """
    if dist.is_initialized():
        dist.destroy_process_group()
        time.sleep(_LAST_TENSORS_S)  # gives the lock away


def _device() -> torch.device:
    return torch.device("cuda" if dist.get_backend() == "nccl" else "cpu")
