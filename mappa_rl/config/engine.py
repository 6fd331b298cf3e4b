"""What samples the policies' replies."""

from __future__ import annotations

import importlib.util
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from mappa_rl.config.base import AUTO, Count, Section
from mappa_rl.config.bf16 import fast_bf16


class Engine(Section):
    """What samples the policies' replies (docs/training.md). All keys except ``name`` are for vllm only."""

    name: Annotated[Literal["hf", "vllm"], AUTO] = "hf"
    """``hf``: transformers, in the learner's process; ``vllm``: vLLM, in separate processes; ``auto``: vllm
    where it is installed, else hf, which ignores the other keys. A run's config names the chosen one."""
    dtype: Annotated[Literal["learner", "fp32", "bf16"], AUTO] = "learner"
    """Precision of the engine's weights; ``learner``: the same as ``optim.dtype``; ``auto``: ``bf16`` where
    the machine has instructions for it, else ``learner``. A run's config names the chosen one."""
    tensor_parallel: Count = 1
    """Number of workers, each on its own GPU, over which a model is split."""
    replicas: Count = 1
    """Number of engines that sample each policy side by side; the requests of an episode stay with one."""
    devices: list[Annotated[int, Field(ge=0)]] = []
    """CUDA indices of the engine's GPUs, ``tensor_parallel`` for each replica; empty: the learner's GPU."""
    memory_fraction: Annotated[float, Field(gt=0, lt=1)] = 0.4
    """Fraction of a GPU's memory that all engines on it use together."""
    kv_cache_mb: Count = 256
    """Size of an engine's key-value cache in MiB, on a CPU only (``memory_fraction`` is for GPUs)."""
    max_num_seqs: Count = 128
    """Maximum number of requests that an engine answers at once."""
    eager: bool = False
    """Start vLLM without compiling the model and without CUDA graphs: it starts sooner and samples slower.
    On a CPU it always does."""
    sleep: bool = False
    """Free the engine's GPU memory while the learner trains; needs a GPU."""

    def devices_of(self, replica: int) -> list[int]:
        """The GPUs of one replica, counted from 0; empty: the learner's GPU, or one that Ray chooses."""
        width = self.tensor_parallel
        return self.devices[replica * width : (replica + 1) * width]

    @model_validator(mode="before")
    @classmethod
    def _chosen(cls, data: Any) -> Any:
        if not isinstance(data, dict) or data.get("name") != AUTO:
            return data
        return {**data, "name": "vllm"} if importlib.util.find_spec("vllm") else {"name": "hf"}

    @field_validator("dtype", mode="before")
    @classmethod
    def _precision(cls, value: Any) -> Any:
        return ("bf16" if fast_bf16() else "learner") if value == AUTO else value
