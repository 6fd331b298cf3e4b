"""One vLLM engine per policy, as ``engine`` and ``policies.map`` of a config ask for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from mappa_rl.config import Config
from mappa_rl.engines.base import Engine
from mappa_rl.engines.log import EngineLog
from mappa_rl.errors import EngineError

LOGS = "logs"


def make_engines(config: Config, models: Mapping[str, Any], folder: Path, lora: bool) -> dict[str, Engine]:
    """Engines of the policies in ``models``, which all began as the model in ``folder``.

    Adapters share one server on the base; other policies have a server each, and the memory is divided.
    Their processes write to ``logs`` in the run's folder.
    Raises ``EngineError``; what was started is ended then.
    """
    from mappa_rl.engines.vllm import AdapterEngine, VLLMEngine
    from mappa_rl.engines.vllm_server import VLLMServer

    options = vllm_options(config, folder, len(models), lora)
    made: dict[str, Any] = {}
    try:
        if lora:
            server = VLLMServer(replace(options, log=_log(config, "adapters")))
            made = {name: AdapterEngine(server, name) for name in models}
        for name, model in models.items():
            if not lora:
                made[name] = VLLMEngine(VLLMServer(replace(options, log=_log(config, name))))
            made[name].load_weights(model, version=0)
    except BaseException:
        for engine in made.values():
            engine.close()
        raise
    return made


def _log(config: Config, name: str) -> EngineLog:
    """The file in the run's folder, where the config names one."""
    return EngineLog(Path(config.run.out) / LOGS / f"engine-{name}.log" if config.run.out else None)


def check_engine(config: Config) -> None:
    """Raises ``EngineError`` for an engine that cannot be had here, before anything long begins."""
    if config.engine.name == "vllm":
        vllm_options(config, Path(), 1, False)


def vllm_options(config: Config, folder: Path, policies: int, lora: bool) -> Any:
    """How vLLM is to be started for each of ``policies``. Raises ``EngineError`` for what cannot be."""
    from mappa_rl.engines.vllm_options import VLLMOptions, import_vllm, on_cpu

    import_vllm()
    engine = config.engine
    if on_cpu():
        asked = [key for key in ("sleep", "devices") if getattr(engine, key)]
        if asked:
            raise EngineError(f"engine.{asked[0]} needs GPUs; vLLM computes on the CPU here. Leave it out.")
    elif engine.tensor_parallel > 1 and not engine.devices:
        raise EngineError(
            f"engine.tensor_parallel={engine.tensor_parallel} needs GPUs beside the learner's: name them in "
            "engine.devices."
        )
    return VLLMOptions(
        folder,
        max_len=config.rollout.max_context,
        dtype=config.optim.dtype if engine.dtype == "learner" else engine.dtype,
        tensor_parallel=engine.tensor_parallel,
        memory_fraction=engine.memory_fraction / (1 if lora else policies),
        kv_cache_mb=engine.kv_cache_mb,
        max_num_seqs=engine.max_num_seqs,
        sleep=engine.sleep,
        devices=tuple(engine.devices),
        threads=config.run.torch_threads or torch.get_num_threads(),
        adapters=policies if lora else 0,
        rank=config.lora.rank,
    )
